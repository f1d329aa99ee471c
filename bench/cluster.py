#!/usr/bin/env python3
"""One question to many hosts: latency, bytes, memory; with a host that is dead and one that hangs.

    cluster.py [--hosts 1,8,64] [--ranks 8] [--queries N]

A host is a user of this machine with a probingd of its own; its ranks have each written a step a second for
a minute, and ended: their rings are what is asked. All hosts share the cores of this machine, and talk over
loopback, where nothing is encrypted. For fleets there is bench/fleet.py. Needs root. Writes JSON to
bench/results/.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import socket
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/integration"), str(ROOT / "bench")]

import harness  # noqa: E402
import job_hosts  # noqa: E402
from job_hosts import Host, with_package  # noqa: E402
from lean_http import ask, request  # noqa: E402
from promises import Promises  # noqa: E402

SQL = (
    "SELECT rank, avg(duration), max(duration) FROM global.python.torch_steps"
    " WHERE timestamp > now() - interval '1 hour' GROUP BY rank"
)
TIMEOUT_S = 3


def start_hosts(probing: harness.Cli, count: int, ranks: int) -> list[Host]:
    hosts = []
    job_hosts.RANKS_PER_HOST = ranks
    for number in range(count):
        hosts.append(host := Host(probing, number))
        for process in host.user.targets:  # what they wrote is kept
            process.kill()
        if sys.stderr.isatty():
            print(f"\r{number + 1} of {count} hosts", end="", file=sys.stderr, flush=True)
    return hosts


class Asker:
    """Asks the first host over its unix socket, as the command line does."""

    def __init__(self, host: Host) -> None:
        self._path = str(host.user.folder / "probingd.sock")
        self._data = request("POST", "/api/v1/query", {"sql": SQL})

    def __call__(self) -> tuple[float, dict[str, Any]]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self._path)
            begun = time.perf_counter()
            body = ask(connection, self._data)
            return (time.perf_counter() - begun) * 1000, json.loads(body)


def measure(what: str, host: Host, ranks: int, queries: int) -> dict[str, Any]:
    """All of `ranks` must be in the answer."""
    asker = Asker(host)
    asker()
    times = []
    for _ in range(queries):
        took_ms, answer = asker()
        if len(answer["rows"]) != ranks:
            raise RuntimeError(f"{len(answer['rows'])} ranks instead of {ranks}: {answer.get('receipt')}")
        times.append(took_ms)
    receipt = answer.get("receipt", {})
    row = {
        "what": what,
        "ranks": ranks,
        "p50_ms": round(statistics.median(times), 1),
        "worst_ms": round(max(times), 1),
        "answered": receipt.get("answered", 1),
        "expected": receipt.get("expected", 1),
        "bytes": receipt.get("bytes", 0),
        "rss_mb": round(int(harness.proc_status(host.user.daemon(), "VmRSS").split()[0]) / 1024, 1),
    }
    print(
        f"{what:34} {ranks:>4} ranks   p50 {row['p50_ms']:>7} ms   worst {row['worst_ms']:>7} ms"
        f"   {row['bytes'] / 1024:>7.0f} KB   {row['answered']} of {row['expected']} hosts"
    )
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--hosts", default="1,8,64")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--queries", type=int, default=20)
    options = parser.parse_args()
    if os.getuid() != 0:
        sys.exit("only root can be several users")
    counts = [int(text) for text in options.hosts.split(",")]
    folder = harness.copy_for_everybody()
    probing = harness.Cli(folder)
    hosts: list[Host] = []
    rows = []
    try:
        with_package(probing)
        hosts = start_hosts(probing, max(counts), options.ranks)
        for count in counts:
            peers = ",".join(host.address for host in hosts[:count])
            hosts[0].config(peers=peers, timeout=TIMEOUT_S)
            rows.append(measure(f"{count} hosts", hosts[0], count * options.ranks, options.queries))
        if len(hosts) > 2:
            os.kill(hosts[-1].user.daemon(), signal.SIGKILL)
            left = (len(hosts) - 1) * options.ranks
            rows.append(measure(f"{len(hosts)} hosts, one dead", hosts[0], left, options.queries))
            os.kill(hosts[-2].user.daemon(), signal.SIGSTOP)
            left -= options.ranks
            rows.append(measure(f"{len(hosts)} hosts, one dead, one hangs", hosts[0], left, options.queries))
    finally:
        for pid in harness.daemons([folder]):
            os.kill(pid, signal.SIGKILL)
        for host in hosts:
            host.user.leave()
        shutil.rmtree(folder)
    results = ROOT / "bench/results"
    results.mkdir(exist_ok=True)
    record = {"machine": platform.platform(), "date": time.strftime("%F"), "rows": rows}
    (results / "cluster.json").write_text(json.dumps(record, indent=1) + "\n")
    promises = Promises()
    each = [row["p50_ms"] / count for row, count in zip(rows, counts, strict=False)]
    for fewer, more, count in zip(each[1:], each[2:], counts[2:], strict=False):
        promises.at_most(f"{count} hosts, p50 for each, times that of fewer", more / fewer, 2)
    for row in rows[len(counts) :]:  # a host that hangs is waited for, and for no longer
        promises.at_most(f"{row['what']}, worst", row["worst_ms"], TIMEOUT_S * 1000 + 1000, "ms")
    return promises.exit_code()


if __name__ == "__main__":
    sys.exit(main())
