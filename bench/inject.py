#!/usr/bin/env python3
"""What entering a process costs, beside what other tools cost for the same kind of job.

    inject.py [--runs N] [--threads 1,200]

For each tool: the whole command, and how long the target's main thread was held, measured by the
target itself (the largest gap in a tight clock loop while the command ran). Prints tables with
ratios, writes JSON to bench/results/. A loaded machine adds to every figure: compare ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
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
from promises import Promises  # noqa: E402

PEERS = ROOT / "build/bench-venv/bin"
QUIET_MS = 1.0  # the gap that a quiet machine stays below by itself


@dataclass
class Row:
    tool: str
    threads: int
    runs: int
    wall_p50_ms: float
    wall_p99_ms: float
    held_p50_ms: float  # as the target saw it
    held_p99_ms: float


def quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(q * (len(ordered) - 1)))]


def run(command: list[str]) -> float:
    """Milliseconds of a command that must succeed."""
    started = time.perf_counter()
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, env=harness.clean_environment()
    )
    elapsed = (time.perf_counter() - started) * 1000
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {result.returncode}: {result.stderr.decode()[-300:]}")
    return elapsed


def start(name: str, *arguments: object) -> harness.Target:
    command = [sys.executable, str(harness.TARGETS / f"target_{name}.py"), *map(str, arguments)]
    return harness.Target(command, Path(tempfile.gettempdir()), {})


def measure(
    tool: str, threads: int, runs: int, act: Callable[[int], float], after: Callable[[int], object]
) -> Row:
    """One target; `act` is timed and watched by the target, `after` puts things back."""
    target = start("clock_gap", threads)
    walls, gaps = [], []
    try:
        for _ in range(runs):
            time.sleep(0.005)
            target.reset("gap_ns")
            walls.append(act(target.pid))
            gaps.append(target.report()["gap_ns"] / 1e6)
            after(target.pid)
        target.expect_unharmed()
    finally:
        target.kill()
    wall = (statistics.median(walls), quantile(walls, 0.99))
    return Row(tool, threads, runs, *wall, statistics.median(gaps), quantile(gaps, 0.99))


def nothing(pid: int) -> None:
    pass


def wait_20_ms(pid: int) -> float:
    time.sleep(0.02)
    return 20.0


def peer_commands() -> dict[str, tuple[int, Callable[[int], list[str]]]]:
    """Tool → (share of the runs, its command)."""
    found: dict[str, tuple[int, Callable[[int], list[str]]]] = {}
    if (PEERS / "py-spy").exists():
        found["py-spy dump"] = (2, lambda pid: [str(PEERS / "py-spy"), "dump", "--pid", str(pid)])
    if (PEERS / "austin").exists():
        found["austin --where"] = (2, lambda pid: [str(PEERS / "austin"), "--where", str(pid)])
    if (PEERS / "pystack").exists():
        found["pystack remote"] = (4, lambda pid: [str(PEERS / "pystack"), "remote", str(pid)])
    if shutil.which("gdb"):
        found["gdb attach+detach"] = (4, lambda pid: ["gdb", "-nx", "-batch", "-p", str(pid)])
    return found


def compare(threads: int, runs: int) -> list[Row]:
    probing = str(harness.BIN / "probing")
    target_option: Callable[[int], list[str]] = lambda pid: [probing, "-t", str(pid)]  # noqa: E731
    rows = [
        measure("(nothing, 20 ms)", threads, runs, wait_20_ms, nothing),
        measure(
            "probing inject",
            threads,
            runs,
            lambda pid: run([*target_option(pid), "inject"]),
            lambda pid: run([*target_option(pid), "eject"]),
        ),
        measure(
            "probing backtrace", threads, runs, lambda pid: run([*target_option(pid), "backtrace"]), nothing
        ),
    ]
    for tool, (share, command) in peer_commands().items():
        act: Callable[[int], float] = lambda pid, command=command: run(command(pid))  # noqa: E731
        try:
            rows.append(measure(tool, threads, max(5, runs // share), act, nothing))
        except (RuntimeError, AssertionError) as error:
            print(f"{tool}, {threads} threads: {error}", file=sys.stderr)
    return rows


def against_austin(threads: int, runs: int) -> dict[str, float]:
    """The same target, one command after the other. Their fast quarters are compared: the rest of the runs
    waited for a core that others had."""
    target = start("clock_gap", threads)
    ours, theirs = [], []
    try:
        for _ in range(runs):
            ours.append(run([str(harness.BIN / "probing"), "-t", str(target.pid), "backtrace"]))
            if (PEERS / "austin").exists():
                theirs.append(run([str(PEERS / "austin"), "--where", str(target.pid)]))
    finally:
        target.kill()
    # Without austin nothing is known, which keeps no promise.
    ratio = quantile(ours, 0.25) / quantile(theirs, 0.25) if theirs else float("nan")
    return {"wall_ms_p50": statistics.median(ours), "ratio": ratio}


def native_of_torch(runs: int) -> dict[str, float]:
    """Native frames of a process that trains, with its libraries in the page cache. The slow half of the runs
    waited for a core."""
    python = ROOT / "build/torch-venv/bin/python"
    if not python.exists():  # nothing is known, which keeps no promise
        return {"wall_ms_p25": float("nan"), "wall_ms_p50": float("nan")}
    command = [str(python), str(harness.TARGETS / "target_torch_train.py"), "1"]
    target = harness.Target(command, Path(tempfile.gettempdir()), {})
    native = [str(harness.BIN / "probing"), "-t", str(target.pid), "backtrace", "--native"]
    try:
        run(native)
        walls = [run(native) for _ in range(runs)]
    finally:
        target.kill()
    return {"wall_ms_p25": quantile(walls, 0.25), "wall_ms_p50": statistics.median(walls)}


def status_kb(pid: int, key: str) -> int:
    return int(harness.proc_status(pid, key).split()[0])


def footprint(runs: int) -> dict[str, float]:
    """What the injector itself reports, and what stays in the target."""
    probing = harness.Cli(harness.BIN)
    target = start("clock_gap", 1)
    held, total, attempts = [], [], []
    before = (status_kb(target.pid, "VmRSS"), int(harness.proc_status(target.pid, "Threads")))
    added = (0, 0)
    try:
        for number in range(runs):
            report = probing("-t", target.pid, "inject", "--no-python", "--json").expect(0).json
            held.append(report["held_us"])
            total.append(report["total_us"])
            attempts.append(report["attempts"])
            if number == 0:
                probing("-t", target.pid, "eval", "1 + 1").expect(0)
                rss, threads = status_kb(target.pid, "VmRSS"), int(harness.proc_status(target.pid, "Threads"))
                added = (rss - before[0], threads - before[1])
            probing("-t", target.pid, "eject").expect(0)
    finally:
        target.kill()
    return {
        "held_us_p50": statistics.median(held),
        "held_us_p99": quantile(held, 0.99),
        "total_us_p50": statistics.median(total),
        "attempts_mean": statistics.mean(attempts),
        "rss_added_kb": added[0],
        "threads_added": added[1],
    }


def peers_added_kb() -> dict[str, int]:
    """What others add to a Python that loads them at its start: more than the same Python without."""
    if not (PEERS / "probing").exists():
        return {}
    sizes = []
    for environment in ({}, {"PROBING": "1"}):
        command = [str(PEERS / "python"), "-c", "print(1, flush=True); input()"]
        variables = harness.clean_environment(**environment)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, env=variables, **pipes) as process:
            assert process.stdout is not None
            process.stdout.readline()
            sizes.append(status_kb(process.pid, "VmRSS"))
            process.kill()
    return {"PyPI probing, loaded at the start": sizes[1] - sizes[0]}


def eval_latency(runs: int) -> dict[str, float]:
    """`eval 1+1` while the main thread is a busy Python loop."""
    probing = harness.Cli(harness.BIN)
    target = start("busy")
    try:
        probing("-t", target.pid, "inject").expect(0)
        command = [str(harness.BIN / "probing"), "-t", str(target.pid), "eval", "1+1"]
        walls = [run(command) for _ in range(runs)]
        inside = [probing(*command[1:4], "--json", "1+1").expect(0).json["duration_us"] for _ in range(runs)]
    finally:
        target.kill()
    return {
        "wall_ms_p50": statistics.median(walls),
        "wall_ms_p99": quantile(walls, 0.99),
        "inside_us_p50": statistics.median(inside),
    }


def print_rows(rows: list[Row]) -> None:
    ours = next(row for row in rows if row.tool == "probing inject")
    print(f"\n{rows[0].threads} thread(s){'':<13}{'whole command, ms':>24}{'':>8}{'target held, ms':>22}")
    print(f"{'':<22}{'p50':>10}{'p99':>10}{'×':>8}   {'p50':>10}{'p99':>10}{'×':>8}")
    for row in rows:
        print(
            f"{row.tool:<22}{row.wall_p50_ms:>10.2f}{row.wall_p99_ms:>10.2f}"
            f"{row.wall_p50_ms / ours.wall_p50_ms:>8.1f}   {row.held_p50_ms:>10.3f}{row.held_p99_ms:>10.3f}"
            f"{row.held_p50_ms / ours.held_p50_ms:>8.1f}"
        )
    if rows[0].held_p50_ms > QUIET_MS:
        print(
            f"this machine is busy: even with no tool a thread waits {rows[0].held_p50_ms:.1f} ms for a core"
        )


def check_promises(
    inside: dict[str, float],
    evaluation: dict[str, float],
    rows: list[Row],
    many: dict[int, dict[str, float]],
    torch: dict[str, float],
) -> Promises:
    inject = {row.threads: row for row in rows if row.tool == "probing inject"}
    backtrace = {row.threads: row for row in rows if row.tool == "probing backtrace"}
    one = min(inject)
    lines = [
        ("inject, whole command, p50", inject[one].wall_p50_ms, "ms", 20),
        ("thread held (injector's clock), p50", inside["held_us_p50"] / 1000, "ms", 0.2),
        ("thread held (injector's clock), p99", inside["held_us_p99"] / 1000, "ms", 2),
        ("memory added", inside["rss_added_kb"] / 1024, "MB", 5),
        ("threads added", inside["threads_added"], "", 1),
        ("eval, whole command, p50", evaluation["wall_ms_p50"], "ms", 5),
        ("eval, inside the target, p50", evaluation["inside_us_p50"] / 1000, "ms", 0.5),
        ("backtrace, whole command, p50", backtrace[one].wall_p50_ms, "ms", 10),
        ("backtrace of 200 threads / austin --where", many[200]["ratio"], "×", 1),
        ("backtrace of 500 threads, whole command, p50", many[500]["wall_ms_p50"], "ms", 150),
        ("backtrace --native of PyTorch, warm, p25", torch["wall_ms_p25"], "ms", 100),
    ]
    promises = Promises()
    for name, value, unit, limit in lines:
        promises.at_most(name, value, limit, unit)
    print(f"{'stops until a safe point, mean':<40}{inside['attempts_mean']:>11.2f}")
    return promises


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--threads", default="1,200", help="thread counts, separated by commas")
    arguments = parser.parse_args()

    kernel, load = platform.release(), os.getloadavg()[0]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Linux {kernel}, load {load:.1f}"
    print(
        f"{time.strftime('%Y-%m-%d')}, {machine}, Python {platform.python_version()}, {arguments.runs} runs"
    )
    before = harness.daemons([harness.BIN])
    rows: list[Row] = []
    try:
        for threads in map(int, arguments.threads.split(",")):
            some = compare(threads, arguments.runs)
            print_rows(some)
            rows += some
        inside, evaluation = footprint(arguments.runs), eval_latency(arguments.runs)
        many = {threads: against_austin(threads, max(15, arguments.runs)) for threads in (200, 500)}
        torch = native_of_torch(arguments.runs)
        promises = check_promises(inside, evaluation, rows, many, torch)
    finally:
        for pid in harness.daemons([harness.BIN]) - before:
            harness.stop_process(pid)

    results = ROOT / "bench/results"
    results.mkdir(exist_ok=True)
    path = results / time.strftime("inject-%Y%m%d-%H%M%S.json")
    content = {
        "machine": machine,
        "rows": [asdict(row) for row in rows],
        "inject": inside,
        "eval": evaluation,
        "many_threads": many,
        "native_of_torch": torch,
        "peers_added_kb": peers_added_kb(),
    }
    path.write_text(json.dumps(content, indent=2) + "\n")
    print(f"\n{path.relative_to(ROOT)}")
    return promises.exit_code()


if __name__ == "__main__":
    sys.exit(main())
