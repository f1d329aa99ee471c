"""Plays the RAS port of a job under NCCL: nccl_ras.py PORT KIND [VERSION]; prints "ready" and serves.

It speaks the protocol of NCCL's src/ras/client_support.cc: lines in, SERVER PROTOCOL, OK and ERROR lines
out, and one status, after which the connection is closed. VERSION "2.27" knows no SET FORMAT and answers in
text. Processes are those of PROBING_RAS_PIDS ("101,102"), one for each rank. Kinds that lie: see LIES.
Python 3.6.
"""

import json
import os
import socketserver
import sys

PORT, KIND = int(sys.argv[1]), sys.argv[2]
VERSION = sys.argv[3] if len(sys.argv) > 3 else "2.28.3"
PIDS = [int(pid) for pid in os.environ.get("PROBING_RAS_PIDS", "101,102,103,104").split(",")]
NODE = os.environ.get("PROBING_RAS_NODE", "127.0.0.1")
WORLD = len(PIDS)
BEHIND = 2  # the rank that has the trouble
LIES = {
    "garbage": "\x00\x01 hello",
    "wrong_type": '{"nccl_version": 7, "communicators": "none", "ras": []}',
    "truncated": '{"nccl_version": "2.28.3", "communicators": [{"hash": "0x1", ',
}


def rank_json(rank):
    launched = 65 if KIND == "mismatch" and rank == BEHIND else 66
    return {
        "rank": rank,
        "host": NODE,
        "pid": PIDS[rank],
        "cuda_dev": rank,
        "nvml_dev": rank,
        "status": {
            "init_state": 0,
            "async_error": 0,
            "finalize_called": False,
            "destroy_flag": False,
            "abort_flag": False,
        },
        "collective_counts": {
            "Broadcast": 3,
            "Reduce": 0,
            "AllGather": 0,
            "ReduceScatter": 0,
            "AllReduce": launched,
            "SendRecv": 0,
            "Send": 0,
            "Recv": 0,
        },
    }


def missing_json(rank):
    place = {
        key: value for key, value in rank_json(rank).items() if key not in ("status", "collective_counts")
    }
    return dict(place, status={"unresponsive": True, "considered_dead": KIND == "dead"})


def status_json():
    missing = [BEHIND] if KIND in ("missing", "dead") else []
    ranks = [rank for rank in range(WORLD) if rank not in missing]
    communicator = {
        "hash": "0x2f4a8c1d9e07b355",
        "secondary_hash": "0x5d1f2c3b4a596877:0x1122334455667788",
        "size": WORLD,
        "ranks_count": len(ranks) - (1 if KIND == "wrong_count" else 0),
        "missing_ranks_count": len(missing),
        "ranks": [rank_json(rank) for rank in ranks],
        "missing_ranks": [missing_json(rank) for rank in missing],
    }
    answer = {
        "nccl_version": VERSION,
        "cuda_runtime_version": 13000,
        "cuda_driver_version": 13000,
        "timestamp": "2026-11-18 17:00:00",
        "communicators_count": 1,
        "communicators": [communicator],
        "ras": {"collection_time_sec": 0.002, "timeouts_count": len(missing)},
    }
    return json.dumps(answer, indent=2) + "\n"


def place(rank):
    return "GPU %d managed by process %d on node %s" % (rank, PIDS[rank], NODE)


def status_text():
    errors = {"mismatch": "MISMATCH", "missing": "INCOMPLETE", "dead": "INCOMPLETE"}.get(KIND, "OK")
    text = "NCCL version %s.0 compiled with CUDA 12.9\n" % VERSION
    text += "CUDA runtime version 12090, driver version 13000\n\nJob summary\n===========\n\n"
    text += "  Nodes  Processes         GPUs  Processes     GPUs\n"
    text += "(total)   per node  per process    (total)  (total)\n"
    text += "%7d  %9d  %11d  %9d  %7d\n" % (1, WORLD, 1, WORLD, WORLD)
    text += "\nCommunicators... (0.00s)\n=============\n\n"
    text += "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
    text += "    #  in group  per comm  per node  per comm  in group\n"
    text += "%5d  %8d  %8d  %8s  %8d  %8d  %8s  %6s\n" % (0, 1, 1, WORLD, WORLD, WORLD, "RUNNING", errors)
    text += "\nErrors\n======\n\n"
    if KIND == "missing":
        text += "INCOMPLETE\n  Missing communicator data from 1 job process\n"
        text += "  Process %d on node %s managing GPU %d\n\n" % (PIDS[BEHIND], NODE, BEHIND)
    if KIND == "dead":
        text += "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
        text += "  Process %d on node %s managing GPU %d\n\n" % (PIDS[BEHIND], NODE, BEHIND)
    if KIND in ("missing", "dead"):
        text += "#0-0 (2f4a8c1d9e07b355) INCOMPLETE\n  Missing communicator data from 1 rank\n"
        text += "  Rank %d -- %s\n\n" % (BEHIND, place(BEHIND))
    text += "Warnings\n========\n\n"
    if KIND == "mismatch":
        text += "#0-0 (2f4a8c1d9e07b355) MISMATCH\n"
        text += "  Communicator ranks have different AllReduce operation counts\n"
        text += "  %d ranks have launched up to operation 66\n" % (WORLD - 1)
        text += "  Rank %d has launched up to operation 65 -- %s\n\n" % (BEHIND, place(BEHIND))
    return text


class Client(socketserver.StreamRequestHandler):
    format = "text"

    def handle(self):
        while True:
            line = self.rfile.readline(1024)
            command = line.strip().lower().decode("utf-8", "replace")
            if not line or not self.answer(command):
                return

    def say(self, text):
        self.wfile.write(text.encode())

    def answer(self, command):
        if command.startswith("client protocol "):
            self.say("SERVER PROTOCOL 2\n")
        elif command.startswith("timeout "):
            self.say("OK\n")
        elif command.startswith("set format ") and VERSION >= "2.28":
            self.format = command.split()[-1]
            self.say("OK\n")
        elif command == "verbose status":
            self.status()
            return False
        else:
            self.say("ERROR: Unknown command %s\n" % command)
        return True

    def status(self):
        if KIND == "silent":
            self.rfile.readline()  # until the other side gives up
        elif KIND == "endless":
            while True:
                self.say('{"nccl_version": "' + "x" * 65536)
        else:
            answer = status_json() if self.format == "json" else status_text()
            self.say(LIES.get(KIND, answer))


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # one that hung up


server = Server((os.environ.get("PROBING_RAS_BIND", "127.0.0.1"), PORT), Client)
print("ready", flush=True)
server.serve_forever()
