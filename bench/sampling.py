#!/usr/bin/env python3
"""What sampling costs: the target's speed, and the sampler's own CPU, beside py-spy record.

    sampling.py [--rate HZ] [--threads N] [--seconds S] [--rounds N]

The target computes in one thread while the others wait, and counts its loops. Slices with and
without a sampler alternate, so that a machine that gets slower slows both. Writes JSON to
bench/results/. A loaded machine adds to every figure: compare ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/integration"))

import harness  # noqa: E402

PEERS = ROOT / "build/bench-venv/bin"


@dataclass
class Row:
    tool: str
    slowdown_percent: float  # of the target, median of paired slices
    sampler_cpu_percent: float  # of one core


Command = Callable[[int, float], list[str]]


def commands(rate: float, output: Path) -> dict[str, Command]:
    probing = str(harness.BIN / "probing")
    found: dict[str, Command] = {
        "(nothing)": lambda pid, seconds: ["sleep", str(seconds)],  # what the machine does by itself
        "probing record": lambda pid, seconds: [
            *(probing, "-t", str(pid), "record", "-r", str(rate), "-d", str(seconds)),
            *("-f", "collapsed", "-o", str(output)),
        ],
    }
    if (PEERS / "py-spy").exists():
        found["py-spy record"] = lambda pid, seconds: [
            *(str(PEERS / "py-spy"), "record", "-p", str(pid), "-r", str(int(rate))),
            *("-d", str(int(seconds)), "-f", "raw", "-o", str(output)),
        ]
        found["py-spy record --nonblocking"] = lambda pid, seconds: [
            *found["py-spy record"](pid, seconds),
            "--nonblocking",
        ]
    return found


def loops_per_second(target: harness.Target, seconds: float) -> float:
    before, started = target.report()["loops"], time.monotonic()
    time.sleep(seconds)
    return (target.report()["loops"] - before) / (time.monotonic() - started)


def measure(name: str, command: Command, target: harness.Target, seconds: float, rounds: int) -> Row:
    slowdowns, shares = [], []
    for _ in range(rounds):
        alone = loops_per_second(target, seconds)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.monotonic()
        process = subprocess.Popen(
            command(target.pid, seconds + 1), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(0.5)  # its start is another question
        sampled = loops_per_second(target, seconds)
        if process.wait() != 0:
            raise RuntimeError(f"{name}: exit {process.returncode}")
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
        shares.append(100 * cpu / (time.monotonic() - started))
        slowdowns.append(100 * (1 - sampled / alone))
    return Row(name, statistics.median(slowdowns), statistics.median(shares))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--threads", type=int, default=150)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()

    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    print(f"{time.strftime('%Y-%m-%d')}, {machine}, Python {platform.python_version()}")
    print(f"{arguments.threads} threads, one of them busy, sampled at {arguments.rate:.0f} Hz\n")
    print(f"{'':<30}{'target slower by':>18}{'sampler, of a core':>22}")
    rows: list[Row] = []
    program = [sys.executable, str(harness.TARGETS / "target_crowd.py"), str(arguments.threads)]
    with tempfile.TemporaryDirectory() as folder:
        target = harness.Target(program, Path(folder), {})
        try:
            for name, command in commands(arguments.rate, Path(folder) / "out").items():
                rows.append(measure(name, command, target, arguments.seconds, arguments.rounds))
                print(
                    f"{name:<30}{rows[-1].slowdown_percent:>16.1f} %{rows[-1].sampler_cpu_percent:>20.1f} %"
                )
            target.expect_unharmed()
        finally:
            target.kill()
    ours = next(row for row in rows if row.tool == "probing record")
    for what, value, limit in [
        ("target slower by", ours.slowdown_percent, 1),
        ("sampler, of a core", ours.sampler_cpu_percent, 5),
    ]:
        print(f"promise: {what:<22}{value:>6.1f} %   ≤ {limit} %   {'ok' if value <= limit else 'MISSED'}")
    results = ROOT / "bench/results"
    results.mkdir(exist_ok=True)
    path = results / time.strftime("sampling-%Y%m%d-%H%M%S.json")
    content = {"machine": machine, "options": vars(arguments), "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(content, indent=2) + "\n")
    print(f"\n{path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
