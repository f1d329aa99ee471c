#!/usr/bin/env python3
"""What the start hook costs an interpreter that nobody wants probed: nothing, is the promise.

Two virtual environments of the same Python, one with the wheel installed, are started in turn, in an order
that changes: `python -c pass` without PROBING. Prints the median of wall and CPU time of both, the
difference of paired starts with the range of 95 % of drawn medians, and the same for two environments that
are alike, which shows what the machine does. With PROBING=0 and PROBING=1 for comparison. Writes JSON to
bench/results/.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from promises import Promises, machine

ROOT = Path(__file__).resolve().parent.parent


def make_environments(folder: Path, wheel: Path | None) -> dict[str, Path]:
    if wheel is None:
        subprocess.run([sys.executable, str(ROOT / "tools/make_wheel.py"), str(folder)], check=True)
        wheel = next(folder.glob("*.whl"))
    found = {}
    for name in ("plain", "plain again", "hooked"):
        venv = folder / name.replace(" ", "-")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
        found[name] = venv / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", str(found["hooked"]), "install", "-q", "--no-index"]
    subprocess.run([*pip, "--disable-pip-version-check", str(wheel)], check=True)
    return found


def start(python: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Wall and CPU milliseconds of one `python -c pass`."""
    began = time.perf_counter()
    pid = os.posix_spawn(str(python), [str(python), "-c", "pass"], environment)
    _, status, usage = os.wait4(pid, 0)
    assert status == 0
    return (time.perf_counter() - began) * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3


def difference(pairs: list[tuple[float, float]]) -> tuple[float, float, float]:
    """Median of second − first, and where 95 % of the medians of as many drawn again are."""
    values = [second - first for first, second in pairs]
    medians = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(1000))
    return statistics.median(values), medians[24], medians[974]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--wheel", type=Path, help="the wheel to install (default: makes one)")
    arguments = parser.parse_args()
    runs = arguments.runs
    own = ("PROBING", "PROBE", "PROBING_DISABLE", "PYTHONPATH", "LD_PRELOAD")
    clean = {k: v for k, v in os.environ.items() if k not in own}
    times: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        pythons = make_environments(Path(folder), arguments.wheel)
        cases = {name: (python, clean) for name, python in pythons.items()}
        cases["hooked, PROBING=0"] = (pythons["hooked"], clean | {"PROBING": "0"})
        cases["hooked, PROBING=1"] = (pythons["hooked"], clean | {"PROBING": "1"})
        for name, case in cases.items():  # what is read for the first time is in memory then
            start(*case)
            times[name] = []
        for _ in range(runs):
            for name in random.sample(list(cases), len(cases)):
                times[name].append(start(*cases[name]))
    rows: list[dict[str, Any]] = []
    for name, values in times.items():
        row: dict[str, Any] = {"case": name}
        for index, kind in enumerate(("wall", "cpu")):
            pairs = [(plain[index], one[index]) for plain, one in zip(times["plain"], values, strict=True)]
            middle, low, high = difference(pairs)
            median = statistics.median(one[index] for one in values)
            row |= {f"{kind}_ms": median, f"{kind}_more_ms": middle, f"{kind}_range_ms": [low, high]}
            print(f"{name:20}{kind:6}{median:8.3f} ms  {middle:+.3f} ({low:+.3f} … {high:+.3f})")
        rows.append(row)
    results = ROOT / "bench/results"
    results.mkdir(exist_ok=True)
    content = {"machine": machine(), "load": os.getloadavg(), "runs": runs, "rows": rows}
    (results / time.strftime("start_hook-%Y%m%d-%H%M%S.json")).write_text(
        json.dumps(content, indent=1) + "\n"
    )
    hooked, again = (next(row for row in rows if row["case"] == one) for one in ("hooked", "plain again"))
    promises = Promises()
    # The range of two that are alike shows what this machine can tell apart.
    noise = max(abs(end) for end in again["cpu_range_ms"])
    promises.at_most("more CPU time without PROBING", hooked["cpu_more_ms"], 0.5 + noise, "ms")
    return promises.exit_code()


if __name__ == "__main__":
    sys.exit(main())
