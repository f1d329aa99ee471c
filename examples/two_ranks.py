"""Starts a script as two ranks on this machine, as torchrun would; what the examples of ranks share."""

import os
import signal
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist

RANKS = 2


def run(main):
    """In the process that was started: starts the ranks and waits. In a rank: joins the group, calls main."""
    if "RANK" in os.environ:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        rank, store = int(os.environ["RANK"]), os.environ["RENDEZVOUS_FILE"]
        dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=RANKS)
        return main(rank)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the ranks end with it
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(RANKS):
            more = {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "RENDEZVOUS_FILE": folder + "/store"}
            ranks.append(subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, **more}))
            print("rank %d is process %d" % (rank, ranks[-1].pid), flush=True)
        try:
            for process in ranks:
                process.wait()
        finally:
            for process in ranks:
                process.kill()
                process.wait()
