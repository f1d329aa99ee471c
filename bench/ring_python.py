#!/usr/bin/env python3
"""What a row costs when Python code writes it, on each Python of this machine.

    ring_python.py [--rows N] [--rounds N]

A row has a time and six values: three ints, a float, a bool, a str. The empty loop is taken off. The
best of the rounds is what the code costs, the median is what this machine makes of it. Writes JSON
to bench/results/.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/integration"))

import harness  # noqa: E402

PROMISED_NS = 250

# Runs in the Python that is measured, so in Python 3.6 syntax.
JOB = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import probing
from probing import _native
rows, rounds = int(sys.argv[2]), int(sys.argv[3])
columns = [("timestamp", "timestamp"), ("a", "int64"), ("b", "int64"), ("c", "int64"), ("d", "double"),
           ("e", "bool"), ("f", "string")]
append = _native.find(now=True)["table"]("python.bench", columns)

@probing.table(name="bench_class")
class Row(object):
    a: int
    b: int
    c: int
    d: float
    e: bool
    f: str

def nothing():
    for i in range(rows):
        pass

def raw():
    for i in range(rows):
        append(None, i, 7, 8, 2.5, True, "forward")

def save():
    for i in range(rows):
        Row(i, 7, 8, 2.5, True, "forward").save()

def log():
    for i in range(rows):
        probing.log(loss=2.5)

def span():
    for i in range(rows):
        with probing.span("forward"):
            pass

def measure(work):
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) / rows * 1e9

seen = {"append": [], "save": [], "log": [], "span": []}
empty = min(measure(nothing) for _ in range(rounds))
for _ in range(rounds):
    for name, work in (("append", raw), ("save", save), ("log", log), ("span", span)):
        seen[name].append(measure(work) - empty)
assert append(None, 1, 2, 3, 4.0, True, "stored")
summary = {name: {"best_ns": min(ns), "median_ns": sorted(ns)[rounds // 2]} for name, ns in seen.items()}
print(json.dumps(summary))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    environment = harness.clean_environment(PROBING_LIBRARY=str(harness.BIN / "libprobing.so"))
    results = {}
    print(
        f"{'ns per row, best (median)':28}"
        + "".join(f"{name:>16}" for name in ("append", "save", "log", "span"))
    )
    for version, python in harness.pythons().items():
        command = [str(python), "-c", JOB, str(ROOT / "python"), str(options.rows), str(options.rounds)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            print(f"{version}: {done.stderr}", file=sys.stderr)
            return 1
        results[version] = json.loads(done.stdout)
        cells = (f"{r['best_ns']:.0f} ({r['median_ns']:.0f})" for r in results[version].values())
        print(f"Python {version:21}" + "".join(f"{cell:>16}" for cell in cells))
    folder = ROOT / "bench/results"
    folder.mkdir(exist_ok=True)
    path = folder / f"ring_python-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps(results, indent=2) + "\n")
    worst = max(result["append"]["best_ns"] for result in results.values())
    print(f"append: {worst:.0f} ns at most; promised are {PROMISED_NS}")
    return 0 if worst <= PROMISED_NS else 1


if __name__ == "__main__":
    sys.exit(main())
