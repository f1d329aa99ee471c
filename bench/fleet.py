#!/usr/bin/env python3
"""10,000 ranks through ClickHouse: what sending their rows takes, and the question who is the slowest.

    fleet.py [--seconds S] [--ranks N] [--hours H]

Sending: ten processes write a row per rank and second, a thousand ranks each, into a table of a job; probingd
sends them (probing.store, default settings) to a ClickHouse server of this machine. CPU time of the history
worker and of the server while rows come. One probingd stands for what many would do: the server sees fewer
and larger inserts than from a thousand hosts.

Asking: an hour of 10,000 ranks, a row per second (36 million), is made inside the server by INSERT SELECT,
because it would take an hour to send; the tables are those of `probing store ddl`. The slowest ten ranks are
asked for with `probing -t clickhouse://… query`, the whole command. Writes JSON to bench/results/; fails when
a promise is not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/integration")]

import harness  # noqa: E402
from clickhouse import Server, servers  # noqa: E402

PROCESSES = 10
WRITES = """
import probing, threading, time
@probing.table(name="steps")
class Step(object):
    rank: int
    step: int
    duration: float
    data_wait: float

def write(first, count):
    step = 0
    begin = time.monotonic()
    while True:
        Step.append_many([Step(first + i, step, 0.5 + i % 97 / 1e3, 0.01) for i in range(count)])
        step += 1
        time.sleep(max(0, begin + step - time.monotonic()))

threading.Thread(target=write, args=({first}, {count}), daemon=True).start()
"""
SLOWEST = (
    "SELECT assumeNotNull(rank) AS r, avg(duration) AS s FROM python.torch_steps"
    " WHERE timestamp > now() - {seconds} GROUP BY r ORDER BY s DESC LIMIT 10"
)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def history_worker() -> int:
    daemon = harness.ask_daemon("GET", "health")["pid"]
    for pid in harness.children_of(daemon):
        if b"--history-worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    raise AssertionError("there is no history worker")


def send(probing: harness.Cli, server: Server, folder: Path, ranks: int, seconds: float) -> dict[str, float]:
    environment = {"PROBING_STORE": server.url, "PROBING_DATA_DIR": str(folder / "data")}

    def sent() -> int:
        sql = "SELECT sent, lost, dropped FROM probing.store WHERE table_name = 'python.steps'"
        found = probing("query", "-f", "json", sql, **environment).expect(0).json
        assert not found or (found[0]["lost"], found[0]["dropped"]) == (0, 0), found
        return found[0]["sent"] if found else 0

    before_us = harness.daemons([harness.BIN])
    sent()  # starts probingd with these settings
    jobs = []
    share = ranks // PROCESSES
    try:
        for i in range(PROCESSES):
            code = WRITES.replace("{first}", str(i * share)).replace("{count}", str(share))
            library = str(harness.BIN / "libprobing.so")
            command = [sys.executable, str(harness.TARGETS / "target_tables.py"), "nothing"]
            command += [str(ROOT / "python"), code]
            jobs.append(harness.Target(command, folder, {"PROBING_LIBRARY": library}))
        harness.wait_until(lambda: sent() > 0, 60, "rows arrive")
        worker, daemon = history_worker(), harness.ask_daemon("GET", "health")["pid"]
        assert server.process is not None
        pids = {"sink": worker, "server": server.process.pid, "probingd": daemon}
        rows, before, began = sent(), {k: cpu_seconds(v) for k, v in pids.items()}, time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - began
        cores = {f"{k}, cores": round((cpu_seconds(v) - before[k]) / took, 3) for k, v in pids.items()}
        return {"rows/s": round((sent() - rows) / took), **cores}
    finally:
        for job in jobs:
            job.process.kill()
            job.process.wait()
        for pid in harness.daemons([harness.BIN]) - before_us:
            harness.stop_process(pid)


def ask(probing: harness.Cli, server: Server, ranks: int, hours: float) -> dict[str, float]:
    seconds = int(hours * 3600)
    for statement in probing("store", "ddl", "--database", "fleet").expect(0).stdout.split(";\n"):
        if statement.strip():
            server.ask(statement)
    began = time.monotonic()
    first = int(time.time()) - seconds + 600  # so that all of it is of the last hour when it is asked for
    for minute in range(0, seconds, 60):  # in the order in which they would have come
        server.ask(
            "INSERT INTO fleet.python_torch_steps (timestamp, timestamp_ns, step, duration, forward,"
            " data_wait, pid, rank, host, job, probing_ring, probing_lane, probing_row, probing_batch)"
            # Durations as real ones are: no two alike, so that they take the space that they take.
            f" SELECT toDateTime({first} + t), ({first} + t) * 1000000000 + intHash32(number + t), t,"
            " 0.5 + intHash32(number * 3 + t) / 1e11, 0.2 + intHash32(number * 5 + t) / 1e11,"
            " intHash32(number * 7 + t) / 1e11, 1000 + r % 8, r, concat('node', toString(intDiv(r, 8))),"
            " 'job', toString(r), 0, t, t"
            f" FROM (SELECT number, {minute} + number % 60 AS t, intDiv(number, 60) AS r"
            f" FROM numbers({60 * ranks}))"
        )
    made = time.monotonic() - began
    times = []
    for _ in range(7):
        answer = probing("-t", server.url, "query", "-f", "json", SLOWEST.format(seconds=seconds)).expect(0)
        assert len(answer.json) == 10
        times.append(answer.seconds)
    rows = int(server.ask("SELECT count() FROM fleet.python_torch_steps"))
    bytes_ = int(
        server.ask("SELECT sum(bytes) FROM system.parts WHERE active AND table = 'python_torch_steps'")
    )
    return {
        "rows": rows,
        "bytes a row": round(bytes_ / rows, 2),
        "made inside, s": round(made, 1),
        "slowest ranks, s, best": round(min(times), 3),
        "slowest ranks, s, median": round(statistics.median(times), 3),
        "slowest ranks, s, worst": round(max(times), 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="how long rows are sent")
    parser.add_argument("--ranks", type=int, default=10_000)
    parser.add_argument("--hours", type=float, default=1, help="how much is asked")
    options = parser.parse_args()
    probing = harness.Cli(harness.BIN)
    with tempfile.TemporaryDirectory() as folder:
        (server,) = servers(Path(folder) / "clickhouse", 1)
        server.start()
        try:
            version = server.ask("SELECT version()").strip()
            sending = send(probing, server, Path(folder), options.ranks, options.seconds)
            asking = ask(probing, server, options.ranks, options.hours)
        finally:
            server.end(signal.SIGKILL)
    machine = f"{os.cpu_count()} cores, {platform.machine()}, ClickHouse {version}"
    content = {
        "machine": machine,
        "load": os.getloadavg(),
        "ranks": options.ranks,
        "sending": sending,
        "asking": asking,
    }
    print(json.dumps(content, indent=2))
    results = ROOT / "bench/results"
    results.mkdir(exist_ok=True)
    (results / time.strftime("fleet-%Y%m%d-%H%M%S.json")).write_text(json.dumps(content, indent=2) + "\n")
    broken = []
    if sending["rows/s"] < 0.95 * options.ranks:
        broken.append(f"{sending['rows/s']} rows/s arrive")
    if sending["sink, cores"] + sending["server, cores"] > 1:
        broken.append("more than a core is busy")
    if asking["slowest ranks, s, median"] > 1:
        broken.append("the slowest ranks take longer than a second")
    print("\n".join(f"not kept: {each}" for each in broken) or "all promises are kept")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
