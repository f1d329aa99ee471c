#!/usr/bin/env python3
"""What it takes to talk with a running job, and what watching a line costs it.

    talk.py [--runs N] [--pairs N]

The job is a busy Python loop that never sleeps. A person's side is measured in a real pseudo-terminal: the
first prompt of `probing repl`, a completion, a line. A line that runs 100,000 times a second is watched with
`--rate 100`, in turns with not being watched (A, B, A, B, … A); the job itself measures the CPU time that its
thread takes for it, and for the same code in a function nobody watches. B is compared with the A before and
the A after it. For the watched line, the machine's own ups and downs are taken out by what the other function
took in the same slice. For the unwatched code they cannot be, so A is compared with the next A as well: what
differs there is the machine. Writes JSON to bench/results/.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/integration"))

import harness  # noqa: E402
from promises import Promises  # noqa: E402
from terminal import PROMPT, Terminal  # noqa: E402

SLICE_S = 0.4  # of A and of B
WANTED = ((3, 8), (3, 11), (3, 12), (3, 13))


def start(name: str, python: Path | None = None) -> harness.Target:
    command = [str(python or sys.executable), str(harness.TARGETS / f"target_{name}.py")]
    return harness.Target(command, Path(tempfile.gettempdir()), {})


promises = Promises()


def row(what: str, value: float, unit: str, bound: float) -> dict[str, Any]:
    promises.at_most(what, value, bound, unit)
    return {"what": what, "value": round(value, 3), "unit": unit, "bound": bound}


def milliseconds(action: Any) -> float:
    begun = time.perf_counter()
    action()
    return (time.perf_counter() - begun) * 1000


def talk(probing: harness.Cli, runs: int) -> list[dict[str, Any]]:
    job = start("busy")
    prompts, completions, lines, evals = [], [], [], []
    try:
        probing("-t", job.pid, "inject").expect(0)
        probing("-t", job.pid, "eval", "1").expect(0)  # probingd runs
        state = tempfile.mkdtemp()
        for _ in range(runs):
            begun = time.perf_counter()
            session = Terminal("-t", job.pid, "repl", XDG_STATE_HOME=state)
            session.expect(PROMPT)
            prompts.append((time.perf_counter() - begun) * 1000)
            session.close()
        session = Terminal("-t", job.pid, "repl", XDG_STATE_HOME=state)
        session.expect(PROMPT)
        for _ in range(3 * runs):
            session.send("MAS")
            session.expect("MAS")
            session.send("\t")
            completions.append(milliseconds(lambda: session.expect("MASK")))
            session.send("\x15")
            session.send("6 * 7")
            session.expect(r"6 \* 7")
            session.send("\r")
            lines.append(milliseconds(lambda: session.expect(r"\n42\n")))
            session.expect(PROMPT)
        session.close()
        command = [str(harness.BIN / "probing"), "-t", str(job.pid), "eval", "1+1"]
        environment = harness.clean_environment()
        for _ in range(5 * runs):
            evals.append(
                milliseconds(
                    lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
                )
            )
    finally:
        job.kill()
    return [
        row("first prompt of the REPL, p50", statistics.median(prompts), "ms", 150),
        row("completion while the job computes, p50", statistics.median(completions), "ms", 50),
        row("a line at the prompt, p50", statistics.median(lines), "ms", 5),
        row("eval under a busy GIL, whole command, p50", statistics.median(evals), "ms", 5),
    ]


Slice = tuple[float, float]  # µs that a loop of the watched function took, and one of the other


def slice_of(job: harness.Target) -> Slice:
    before = job.report()
    time.sleep(SLICE_S)
    after = job.report()
    loops = max(1, after["loops"] - before["loops"])
    watched, unwatched = ((after[k] - before[k]) / loops / 1000 for k in ("watched_ns", "unwatched_ns"))
    return watched, unwatched


def slices(probing: harness.Cli, job: harness.Target, pairs: int) -> tuple[list[Slice], list[Slice]]:
    """Without a point, and with one between each two of those."""
    source = (harness.TARGETS / "target_hot.py").read_text().splitlines()
    line = 1 + next(i for i, text in enumerate(source) if "# the line" in text)
    plain, with_point = [slice_of(job)], []
    for _ in range(pairs):
        probing("-t", job.pid, "debug", "log", f"target_hot.py:{line}", "total", "--rate", 100).expect(0)
        time.sleep(0.05)  # calls that were under way are over
        with_point.append(slice_of(job))
        probing("-t", job.pid, "debug", "remove", "all").expect(0)
        time.sleep(0.05)
        plain.append(slice_of(job))
    return plain, with_point


def watching(probing: harness.Cli, python: str, pairs: int) -> list[dict[str, Any]]:
    job = start("hot", harness.pythons()[python])
    try:
        probing("-t", job.pid, "inject").expect(0)
        plain, with_point = slices(probing, job, pairs)
        counted = "SELECT count(*) AS n FROM python.logpoints"
        rows_per_second = harness.rows(probing, counted, job.pid)[0]["n"] / (pairs * (SLICE_S + 0.05))
    finally:
        job.kill()
    watched, unwatched, control = [], [], []
    for before, now, after in zip(plain, with_point, plain[1:], strict=False):
        base = [(one + other) / 2 for one, other in zip(before, after, strict=True)]
        watched.append(100 * ((now[0] / now[1]) / (base[0] / base[1]) - 1))
        unwatched.append(100 * (now[1] / base[1] - 1))
        control.append(100 * (after[1] / before[1] - 1))
    per_second = 1000 / statistics.median(one[0] for one in plain) * 1e6
    print(f"Python {python}: the line runs {per_second:,.0f}/s of CPU time, {rows_per_second:.0f} rows/s")
    spread = {}
    for what, values in (("watched", watched), ("unwatched", unwatched), ("nothing changed", control)):
        low, _, high = spread[what] = [round(each, 2) for each in statistics.quantiles(values, n=4)]
        print(f"    quartiles, {what:16} {low:+.2f} % … {high:+.2f} %")
    return [
        row(f"a watched line, --rate 100, Python {python}", statistics.median(watched), "%", 3)
        | {"quartiles": spread["watched"]},
        row(f"the same code unwatched, Python {python}", statistics.median(unwatched), "%", 0.5)
        | {"quartiles": spread["unwatched"], "of_the_machine": spread["nothing changed"]},
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=20)
    options = parser.parse_args()
    probing = harness.Cli(harness.BIN)
    rows = talk(probing, options.runs)
    for python in harness.pythons():
        if harness.version_of(python)[:2] in WANTED and not python.endswith("t"):
            rows += watching(probing, python, options.pairs)
    results = ROOT / "bench/results"
    results.mkdir(exist_ok=True)
    record = {
        "machine": platform.platform(),
        "cores": os.cpu_count(),
        "date": time.strftime("%F"),
        "rows": rows,
    }
    (results / "talk.json").write_text(json.dumps(record, indent=1) + "\n")
    return promises.exit_code()


if __name__ == "__main__":
    sys.exit(main())
