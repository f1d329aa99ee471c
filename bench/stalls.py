"""Stalls: are they found, by the right line; is a healthy program left in peace; what does looking cost?

    stalls.py [--stalls N] [--healthy SECONDS] [--kinds loop,uvloop,aiohttp,gil,spans,steps,torch] [--cost]

Programs stall N times each, for 30 to 400 ms, at lines and times that they write down
(tests/targets/target_stalls.py); then each runs without a stall. A stall of at least 50 ms is found
when a row of python.stalls covers its time and has its line. `--cost` measures instead what probingd
takes for a busy process with 50 threads, and what that loses: work per second of CPU, with and without
the looks, in turn. Exits with 1 when a bound is missed. Bounds: 99 % found, no row in healthy running,
3 % of a CPU, 0.3 % lost, 32 MB.
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
from typing import Any

from promises import Promises

promises = Promises()

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(os.environ.get("PROBING_BIN", ROOT / "build/release/bin"))
TARGET = ROOT / "tests/targets/target_stalls.py"
ENVIRONMENT = os.environ | {
    "PYTHONPATH": str(ROOT / "python"),
    "PROBING_LIBRARY": str(BIN / "libprobing.so"),
}
PYTHONS = {
    "torch": ROOT / "build/torch-venv/bin/python",
    "aiohttp": ROOT / "build/frameworks-venv/bin/python",
}
KINDS = {
    "loop": ("event_loop", "cpu_wait"),
    "uvloop": ("event_loop", "cpu_wait"),
    "aiohttp": ("event_loop", "cpu_wait"),
    "gil": ("gil", "cpu_wait"),
    "spans": ("span",),
    "steps": ("step",),
    "torch": ("step",),
}
SQL = "SELECT epoch(timestamp) AS at, kind, duration, func, lineno, stack, why, cpu_wait FROM python.stalls"
MISSED_PERCENT, CPU_PERCENT, LOST_PERCENT, MEGABYTES = 1.0, 3.0, 0.3, 32.0


def probing(*arguments: object) -> str:
    command = [str(BIN / "probing"), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT).stdout


def rows_of(pid: int) -> list[dict[str, Any]]:
    return json.loads(probing("-t", pid, "query", "-f", "json", SQL))


class Program:
    """A target, with the probe in it."""

    def __init__(self, kind: str, *arguments: object) -> None:
        python = str(PYTHONS.get(kind, sys.executable))
        self.process = subprocess.Popen(
            [python, str(TARGET), kind, *map(str, arguments)], stdout=subprocess.PIPE, env=ENVIRONMENT
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == b"ready"
        self.pid = self.process.pid
        probing("-t", self.pid, "inject")
        probing("config", "probing.stalls.limit=0.05")

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()


def is_found(stall: dict[str, Any], rows: list[dict[str, Any]], kinds: tuple[str, ...]) -> bool:
    end = stall["at"] + stall["seconds"]
    return any(
        row["kind"] in kinds
        and row["at"] < end
        and row["at"] + row["duration"] > stall["at"]
        and f"{stall['func']} (target_stalls.py:{stall['line']})" in (row["stack"] or "")
        for row in rows
    )


def find(kind: str, stalls: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        truth = Path(folder) / "truth.json"
        with Program(kind, stalls, truth, 0.03, 0.4) as program:
            rows: dict[Any, dict[str, Any]] = {}
            while not truth.exists():
                time.sleep(5)
                rows |= {(row["at"], row["kind"]): row for row in rows_of(program.pid)}
            time.sleep(1)
            rows |= {(row["at"], row["kind"]): row for row in rows_of(program.pid)}
            known = json.loads(truth.read_text())
    long = [stall for stall in known if stall["seconds"] >= 0.05]
    missed = [stall for stall in long if not is_found(stall, list(rows.values()), KINDS[kind])]
    for stall in missed[:5]:
        print("  missed", stall)
    percent = 100 * len(missed) / len(long)
    promises.at_most(f"{kind}: missed of {len(long)} stalls of ≥ 50 ms", percent, MISSED_PERCENT, "%")


def rest(kind: str, seconds: float) -> None:
    with Program(kind, 0, "/dev/null") as program:
        time.sleep(seconds)
        rows = [row for row in rows_of(program.pid) if row["cpu_wait"] < row["duration"] / 2]
    for row in rows[:5]:
        print("  healthy, but", row)
    promises.at_most(f"{kind}: rows in {seconds:g} s of healthy running", len(rows), 0, "rows")


BUSY = """
import sys, threading, time
def work():
    while True:
        sum(range(300)); time.sleep(0.02)
for _ in range(49): threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
while True:
    begun, cpu, n = time.perf_counter(), time.thread_time(), 0
    while time.perf_counter() - begun < 0.25:
        sum(range(1000)); n += 1
    print(n / (time.thread_time() - cpu), flush=True)
"""


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def cost(seconds: float) -> None:
    command = [sys.executable, "-c", BUSY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as job:
        try:
            assert job.stdout is not None
            job.stdout.readline()
            probing("config", "probing.stalls.limit=0")
            probing("-t", job.pid, "inject")
            daemon = json.loads(probing("status", "--json"))["pid"]
            speeds: dict[bool, list[float]] = {True: [], False: []}
            spent: dict[bool, list[float]] = {True: [], False: []}
            memory = {}
            for looks in (False, True) * max(2, int(seconds / 16)):
                probing("config", f"probing.stalls.limit={0.05 if looks else 0}")
                time.sleep(2)
                os.set_blocking(job.stdout.fileno(), False)
                job.stdout.read()
                os.set_blocking(job.stdout.fileno(), True)
                job.stdout.readline()
                before, begun = cpu_seconds(daemon), time.monotonic()
                speeds[looks] += [float(job.stdout.readline()) for _ in range(24)]
                spent[looks].append((cpu_seconds(daemon) - before) / (time.monotonic() - begun))
                memory[looks] = resident(daemon)
        finally:
            job.kill()
    lost = 100 * (1 - statistics.median(speeds[True]) / statistics.median(speeds[False]))
    promises.at_most("the target's work per CPU second, lost", lost, LOST_PERCENT, "%")
    promises.at_most("probingd, of a CPU", 100 * statistics.median(spent[True]), CPU_PERCENT, "%")
    promises.at_most("probingd, memory more", memory[True] - memory[False], MEGABYTES, "MB")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stalls", type=int, default=500)
    parser.add_argument("--healthy", type=float, default=600)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--cost", action="store_true")
    options = parser.parse_args()
    if options.cost:
        cost(120)
    else:
        for kind in options.kinds.split(","):
            if options.stalls:
                find(kind, options.stalls)
            if options.healthy:
                rest(kind, options.healthy)
    sys.exit(promises.exit_code())


if __name__ == "__main__":
    main()
