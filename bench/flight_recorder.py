#!/usr/bin/env python3
"""What reading torch's Flight Recorder costs a job: python.collectives and what `diagnose` asks of it.

    flight_recorder.py [--readings 60]

One rank on gloo whose recorder is full (2000 collectives). At default settings it is not read, so that a
step loses nothing: readings are counted. `diagnose` or a query has it read on a thread of the probe's,
without the GIL; the CPU time of that is probing.overhead, part collectives. Writes JSON to bench/results/ and
fails when a promise is not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/integration"), str(ROOT / "bench")]

import harness  # noqa: E402
from promises import Promises, machine  # noqa: E402

TORCH = ROOT / "build/torch-venv/bin/python"
FULL = 2000  # what torch keeps
WATCH_S = 5.0  # between two readings of `diagnose --watch`: src/cli/diagnose.cc
MOST_MS = 40  # of CPU time, of one reading
# A statement with the word in it would have them read.
COST = "SELECT calls, total_ns FROM probing.overhead WHERE part LIKE 'coll%'"
READ = "SELECT count(*) AS n FROM python.collective_starts"
IDLE_S = 12


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--readings", type=int, default=60)
    options = parser.parse_args()
    if not TORCH.exists():
        sys.exit("needs torch (tools/install_deps.sh torch)")
    probing = harness.Cli(harness.BIN)
    with tempfile.TemporaryDirectory() as folder:
        job = subprocess.Popen(
            [str(TORCH), str(harness.TARGETS / "target_torch_kinds.py"), "gloo", f"{folder}/store"],
            stdout=subprocess.DEVNULL,
            env=harness.clean_environment(),
        )
        try:
            return measure(probing, job.pid, options.readings)
        finally:
            job.kill()
            job.wait()


def measure(probing: harness.Cli, pid: int, readings: int) -> int:
    def cost() -> tuple[int, int]:
        [row] = harness.rows(probing, COST, pid)
        return row["calls"], row["total_ns"]

    def is_full() -> bool:
        time.sleep(1)
        return harness.rows(probing, READ, pid)[0]["n"] >= FULL

    harness.wait_until(lambda: probing("-t", pid, "inject").code == 0, 120, "it is entered")
    harness.wait_until(is_full, 300, "its recorder is full")
    before = cost()

    def is_quiet() -> bool:  # what was asked for has been read
        nonlocal before
        time.sleep(2)
        was, before = before, cost()
        return was == before

    harness.wait_until(is_quiet, 60, "no reading is under way")
    time.sleep(IDLE_S)  # at default settings, without a request
    unasked = cost()[0] - before[0]
    took_ms = []
    for _ in range(readings):
        calls, total_ns = cost()
        harness.rows(probing, READ, pid)
        after = cost()
        if after[0] > calls:
            took_ms.append((after[1] - total_ns) / (after[0] - calls) / 1e6)
    median = statistics.median(took_ms) if took_ms else float("nan")
    worst = max(took_ms, default=float("nan"))
    percent = 100 * median / 1e3 / WATCH_S
    promises = Promises()
    promises.at_most("readings without a request", unasked, 0)
    promises.at_most(f"a reading of {FULL} collectives, CPU time", median, MOST_MS, "ms")
    print(f"{len(took_ms)} readings, worst {worst:.2f} ms")
    print(f"one every {WATCH_S:g} s takes {percent:.2f} % of a core")
    results = ROOT / "bench/results"
    results.mkdir(exist_ok=True)
    content = {
        "machine": machine(),
        "load": os.getloadavg(),
        "readings": len(took_ms),
        "median_ms": median,
        "worst_ms": worst,
        "percent": percent,
        "missed": promises.missed,
    }
    path = results / time.strftime("flight_recorder-%Y%m%d-%H%M%S.json")
    path.write_text(json.dumps(content, indent=1) + "\n")
    return promises.exit_code()


if __name__ == "__main__":
    sys.exit(main())
