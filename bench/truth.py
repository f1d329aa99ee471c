#!/usr/bin/env python3
"""Are the shares of a profile true? Many recordings of programs that know where they spent their time.

    truth.py [--runs 100] [--seconds 5] [--rates 10,100,1000] [--pythons 3.8,3.13] [--kinds calls,native]

For each Python, program (target_truth.py) and rate, beside a busy neighbour: a run is right when
the sampled share is in the 99 % interval around the true one, for as many samples as there were. The counters
are read before and after the recording; what the program can have done in between is added to the interval.
The promise is 98 right runs of 100. A row is red when so few right ones would be seen less than once in 1,000
times if the interval were kept. All runs of the default take half a day; --runs 5 shows the way.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/integration"))

import harness  # noqa: E402
from test_truth import noted, seen_share  # noqa: E402

Z = 2.576  # of the normal distribution: two sides, 99 %
MISSED_BY_CHANCE = 0.01
RED = 0.001  # as unlikely as this is no chance
KINDS = ["calls", "recursion", "generators", "threads", "sleeping", "native", "asyncio"]
PACED = ["paced 10", "paced 50", "paced 100", "paced 200"]


def one_run(probing: harness.Cli, target: harness.Target, hz: int, seconds: float) -> tuple[bool, float]:
    """Whether the share was right, and how far it was off."""
    before, started = target.report(), time.monotonic()
    answer = probing(
        "-t", target.pid, "record", "-d", seconds, "-r", hz, "-f", "collapsed", "-o", "-"
    ).expect(0)
    after, elapsed = target.report(), time.monotonic() - started
    left, right = (after[name] - before[name] for name in ("left", "right"))
    truth = left / (left + right)
    share, samples = seen_share(answer.stdout)
    looks = max(1, samples - noted(r"(\d+) samples came late", answer))
    # Wilson's interval holds for few samples as well; half a sample is what a count can be off by.
    spread = Z * math.sqrt(truth * (1 - truth) / looks + Z * Z / (4 * looks * looks)) / (1 + Z * Z / looks)
    at_the_ends = max(0.0, elapsed - seconds) / elapsed * max(truth, 1 - truth)
    off = share - truth
    return abs(off) <= spread + 0.5 / looks + at_the_ends, off


def chance_of(misses: int, runs: int) -> float:
    """How likely so many or more misses are when each run misses by chance."""
    return sum(
        math.comb(runs, k) * MISSED_BY_CHANCE**k * (1 - MISSED_BY_CHANCE) ** (runs - k)
        for k in range(misses, runs + 1)
    )


def measure(version: str, kind: str, hz: int, arguments: argparse.Namespace) -> dict[str, object]:
    probing = harness.Cli(ROOT / "build/release/bin")
    command = [str(harness.pythons()[version]), str(harness.TARGETS / "target_truth.py"), *kind.split()]
    with tempfile.TemporaryDirectory() as folder:
        target = harness.Target(command, Path(folder), {})
        try:
            runs = [one_run(probing, target, hz, arguments.seconds) for _ in range(arguments.runs)]
            target.expect_unharmed()
        finally:
            target.kill()
    right = sum(is_right for is_right, _ in runs)
    chance = chance_of(len(runs) - right, len(runs))
    return {
        "python": version,
        "kind": kind,
        "hz": hz,
        "runs": len(runs),
        "right": right,
        "mean_off": round(statistics.mean(off for _, off in runs), 4),
        "chance": round(chance, 5),
        "red": chance < RED,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rates", default="10,100,1000")
    parser.add_argument("--pythons", default="", help="3.8,3.13: those of this machine that begin so")
    parser.add_argument("--kinds", default=",".join(KINDS + PACED))
    arguments = parser.parse_args()
    wanted = [text for text in arguments.pythons.split(",") if text]
    versions = [
        v for v in harness.python_ids() if not wanted or any(v.startswith(text + ".") for text in wanted)
    ]
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    rows = []
    try:
        for version in versions:
            for kind in arguments.kinds.split(","):
                for hz in map(int, arguments.rates.split(",")):
                    rows.append(measure(version, kind, hz, arguments))
                    print(json.dumps(rows[-1]), flush=True)
    finally:
        neighbour.kill()
        neighbour.wait()
    runs, right = (sum(int(str(row[name])) for row in rows) for name in ("runs", "right"))
    print(f"{right} of {runs} runs right ({100 * right / max(1, runs):.1f} %)")
    (ROOT / "bench/results").mkdir(exist_ok=True)
    (ROOT / "bench/results/truth.json").write_text(json.dumps({"rows": rows}, indent=1))
    return 1 if not rows or any(row["red"] for row in rows) or right < 0.98 * runs else 0


if __name__ == "__main__":
    sys.exit(main())
