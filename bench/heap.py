#!/usr/bin/env python3
"""How long `probing memory --heap` reads two million objects of a Python process, whole command.

    heap.py [--objects N]

The quickest of some runs counts: other programs make a run slower and none faster. The process is not
stopped for it: there is nothing to measure there. Exits with 1 when the bound is missed.
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
sys.path[:0] = [str(ROOT / "tests/integration")]

import harness  # noqa: E402
from promises import Promises, machine  # noqa: E402

RUNS = 5
MOST_SECONDS = 4.0
MOST_PEAK_MB = 1024  # of the command; it is another process


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects", type=int, default=2_000_000)
    objects = parser.parse_args().objects
    with tempfile.NamedTemporaryFile() as report:
        report.truncate(64 * 8)
        job = subprocess.Popen(
            [sys.executable, str(ROOT / "tests/targets/target_heap.py"), "many", str(objects)],
            stdout=subprocess.PIPE,
            env=harness.clean_environment(TARGET_REPORT=report.name),
        )
        assert job.stdout is not None
        job.stdout.readline()
        took, peaks = [], []
        try:
            for _ in range(RUNS):
                began = time.perf_counter()
                command = [str(harness.BIN / "probing"), "-t", str(job.pid), "memory", "--heap", "--json"]
                reader = subprocess.Popen(command, stdout=subprocess.PIPE, env=harness.clean_environment())
                assert reader.stdout is not None
                answer = json.loads(reader.stdout.read())
                _, _, usage = os.wait4(reader.pid, 0)
                took.append(time.perf_counter() - began)
                peaks.append(usage.ru_maxrss / 1024)
                assert answer["tracked"] > objects, answer["tracked"]
        finally:
            job.kill()
            job.wait()
    print(f"{objects:,} objects, {answer['references']:,} references: {' '.join(f'{s:.2f}' for s in took)} s")
    results = ROOT / "bench/results"
    results.mkdir(exist_ok=True)
    content = {
        "machine": machine(),
        "load": os.getloadavg(),
        "objects": objects,
        "runs": RUNS,
        "median_s": statistics.median(took),
        "peak_mb": min(peaks),
    }
    (results / time.strftime("heap-%Y%m%d-%H%M%S.json")).write_text(json.dumps(content, indent=1) + "\n")
    promises = Promises()
    promises.at_most("memory --heap of 2 million objects, whole command", min(took), MOST_SECONDS, "s")
    promises.at_most("memory of the command meanwhile", min(peaks), MOST_PEAK_MB, "MB")
    return promises.exit_code()


if __name__ == "__main__":
    sys.exit(main())
