#!/usr/bin/env python3
"""Are the shares of a profile true? Many recordings of programs that know where they spent their time.

    truth.py [--runs 100] [--seconds 5] [--rates 10,100,1000] [--pythons 3.8,3.13] [--kinds calls,native]

For each Python, program (target_truth.py) and rate, beside a busy neighbour: a run is right when
the sampled share is in the 99 % interval around the true one, for as many samples as there were. The counters
are read before and after the recording; what the program can have done in between is added to the interval.
The promise is 98 right runs of 100. Of runs whose shares are true one in 100 misses by chance, so a few
misses prove nothing: 3 or more of 175 happen one time in four. A row is red when so many misses would be
seen, in any row of a bench, once in 1,000 benches at most. All runs together are held to the promise, too.
Either is exit code 1. All runs of the default take half a day; --runs 5 shows the way.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/integration"))

import harness  # noqa: E402
from test_truth import looks_of, seen_share  # noqa: E402

Z = 2.576  # of the normal distribution: two sides, 99 %
MISSED_BY_CHANCE = 0.01
ATTEMPTS = 5  # at a recording in which the target ran at all
PROMISED = 0.98
RED = 0.001  # as unlikely as this, in the whole bench, is no chance
KINDS = ["calls", "recursion", "generators", "threads", "sleeping", "native", "asyncio"]
PACED = ["paced 10", "paced 50", "paced 100", "paced 200"]


def one_run(probing: harness.Cli, target: harness.Target, hz: int, seconds: float) -> tuple[bool, float]:
    """Whether the share was right, and how far it was off."""
    for _ in range(ATTEMPTS):
        before, started = target.report(), time.monotonic()
        answer = probing(
            "-t", target.pid, "record", "-d", seconds, "-r", hz, "-f", "collapsed", "-o", "-"
        ).expect(0)
        after, elapsed = target.report(), time.monotonic() - started
        left, right = (after[name] - before[name] for name in ("left", "right"))
        if left + right > 0:
            break
    else:
        raise RuntimeError(f"the target got no CPU in {ATTEMPTS} recordings: the machine is too busy")
    truth = left / (left + right)
    share, samples = seen_share(answer.stdout)
    looks = looks_of(samples, answer)
    # Wilson's interval holds for few samples as well; half a sample is what a count can be off by.
    spread = Z * math.sqrt(truth * (1 - truth) / looks + Z * Z / (4 * looks * looks)) / (1 + Z * Z / looks)
    at_the_ends = max(0.0, elapsed - seconds) / elapsed * max(truth, 1 - truth)
    off = share - truth
    return abs(off) <= spread + 0.5 / looks + at_the_ends, off


def chance_of(misses: int, runs: int) -> float:
    """How likely so many or more misses are when each run misses by chance."""
    by_chance, kept = math.log(MISSED_BY_CHANCE), math.log(1 - MISSED_BY_CHANCE)

    def exactly(k: int) -> float:  # in logarithms: the whole bench has 26,000 runs
        ways = math.lgamma(runs + 1) - math.lgamma(k + 1) - math.lgamma(runs - k + 1)
        return math.exp(ways + k * by_chance + (runs - k) * kept)

    return sum(exactly(k) for k in range(misses, runs + 1))


def judge(rows: list[dict[str, object]]) -> list[str]:
    """What is wrong, in sentences; none when the promise may be kept."""
    if not rows:
        return ["nothing was measured"]
    red = [row for row in rows if float(str(row["chance"])) < RED / len(rows)]
    wrong = [
        f"{r['python']} {r['kind']} at {r['hz']} Hz: {r['right']} of {r['runs']} runs right" for r in red
    ]
    runs, right = (sum(int(str(row[name])) for row in rows) for name in ("runs", "right"))
    if right < PROMISED * runs and chance_of(runs - right, runs) < RED:
        wrong.append(f"all together: {right} of {runs} runs right")
    return wrong


def measure(version: str, kind: str, hz: int, arguments: argparse.Namespace) -> dict[str, object]:
    probing = harness.Cli(harness.BIN)
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
        "chance": round(chance, 12),
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
        v
        for v in harness.python_ids()
        if not wanted or any(f"{v}.".startswith(text + ".") for text in wanted)
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
    wrong = judge(rows)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    content = {"machine": machine, "rows": rows, "wrong": wrong}
    (ROOT / "bench/results/truth.json").write_text(json.dumps(content, indent=1))
    for sentence in wrong:
        print(f"NOT TRUE: {sentence}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
