#!/usr/bin/env python3
"""What `probing profile` costs a training step while it is on, beside torch.profiler by hand, and afterwards.

    torch_profile.py [--rounds 8] [--steps 40]

Two processes train a small transformer on the CPU; one of them is profiled, by hand and by us in turns. Each
step notes its CPU time. Steps of the two are compared before the first profile and after the last. Ratios of
medians, so that other programs on the machine change little. Writes JSON to bench/results/ and fails when a
promise is not kept.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/integration"), str(ROOT / "bench")]

import harness  # noqa: E402
from promises import Promises, machine  # noqa: E402

TORCH = ROOT / "build/torch-venv/bin/python"
MOST_OF_BY_HAND = 1.05  # a step under ours, of one under torch.profiler
MOST_AFTERWARDS = 1.02  # a step after all profiles, of one before them, each of one of the other process

# A line on stdin is how the next steps are made; each step answers with its CPU time on all threads.
JOB = """
import sys, time, torch
torch.set_num_threads(1)
torch.manual_seed(7)
layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
model = torch.nn.Sequential(torch.nn.TransformerEncoder(layer, 3), torch.nn.Linear(64, 8))
optimizer = torch.optim.AdamW(model.parameters(), 0.01)
batch = torch.randn(16, 24, 64)
def step():
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
def steps(count):
    for _ in range(count):
        whole = torch.autograd.profiler._is_profiler_enabled
        began = time.process_time()
        step()
        took = time.process_time() - began
        whole = whole == torch.autograd.profiler._is_profiler_enabled
        print(took if whole else "cut", int(torch.autograd.profiler._is_profiler_enabled), flush=True)
steps(20)
print("ready", flush=True)
for line in sys.stdin:
    how, count = line.split()
    if how == "hand":
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            steps(int(count))
    else:
        steps(int(count))
    print("done", flush=True)
"""


class Job:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [str(TORCH), "-c", JOB],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # Kineto's, of profiles by hand
            text=True,
            env=harness.clean_environment(OMP_NUM_THREADS="1"),
        )
        self.read_until("ready")

    def read_until(self, word: str) -> list[tuple[float, bool]]:
        """Time of each step, and whether a profiler was on. A step in which that changed is left out."""
        assert self.process.stdout is not None
        steps = []
        for line in self.process.stdout:
            if line.strip() == word:
                return steps
            took, is_on = line.split()
            if took != "cut":
                steps.append((float(took), is_on == "1"))
        raise RuntimeError("the job has ended")

    def start(self, how: str, count: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{how} {count}\n")
        self.process.stdin.flush()

    def run(self, how: str, count: int) -> list[tuple[float, bool]]:
        self.start(how, count)
        return self.read_until("done")


def profiled(job: Job, count: int) -> list[float]:
    """Steps under a profile of ours: it begins at the end of one of more steps than it records."""
    job.start("plain", count * 4)
    time.sleep(0.01)
    command = [str(harness.BIN / "probing"), "-t", str(job.process.pid), "profile", "--steps", str(count)]
    asked = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found = [took for took, is_on in job.read_until("done") if is_on]
    asked.wait(120)
    return found


def side_by_side(job: Job, other: Job, rounds: int, count: int) -> tuple[list[float], list[float]]:
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for found, one in zip(times, (job, other), strict=True):
            found.extend(took for took, _ in one.run("plain", count))
    return times


def measure(rounds: int, count: int) -> dict[str, Any]:
    times: dict[str, list[float]] = defaultdict(list)
    job, other = Job(), Job()
    try:
        times["before"], times["other, before"] = side_by_side(job, other, rounds, count)
        harness.Cli(harness.BIN)("-t", job.process.pid, "inject").expect(0)
        profiled(job, 2)  # the first time torch's profiler prepares itself
        job.run("hand", 2)
        for number in range(rounds):
            for how in ("by hand", "ours") if number % 2 else ("ours", "by hand"):
                if how == "ours":
                    times[how] += profiled(job, count)
                else:
                    times[how] += [took for took, _ in job.run("hand", count)]
        times["after"], times["other, after"] = side_by_side(job, other, rounds, count)
    finally:
        for one in (job, other):
            one.process.kill()
            one.process.wait()
    return {
        kind: {"ms": 1000 * statistics.median(found), "steps": len(found)} for kind, found in times.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    if not TORCH.exists():
        sys.exit("needs torch (tools/install_deps.sh torch)")
    found = measure(options.rounds, options.steps)
    for kind, row in found.items():
        print(f"{kind:<15}{row['ms']:>9.3f} ms of CPU a step ({row['steps']} steps)")
    promises = Promises()

    def ratio(one: str, of: str) -> float:
        return found[one]["ms"] / found[of]["ms"]

    promises.at_most("a step under a profile, of one by hand", ratio("ours", "by hand"), MOST_OF_BY_HAND)
    afterwards = ratio("after", "other, after") / ratio("before", "other, before")
    promises.at_most("a step afterwards, of one before", afterwards, MOST_AFTERWARDS)
    results = ROOT / "bench/results"
    results.mkdir(exist_ok=True)
    (results / "torch_profile.json").write_text(json.dumps({"machine": machine(), **found}, indent=1) + "\n")
    return promises.exit_code()


if __name__ == "__main__":
    sys.exit(main())
