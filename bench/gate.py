#!/usr/bin/env python3
"""Ratios that must not get worse by much: red for code that is five times slower, on any machine.

    gate.py [--short] [--only inject,ring] [--junit FILE]

Each compares what we do with a fixed piece of work, in turns, in the same run:

| gate | ours | against |
|---|---|---|
| inject | how long `probing inject` holds a thread | PTRACE_INTERRUPT, DETACH |
| backtrace | `probing backtrace`, whole command | CPU time of `py-spy dump` |
| query | a group-by over a ring, over HTTP | the same in DuckDB, in its own process |
| ring | a row into a ring; four columns out of one | clock_gettime and memcpy of as many bytes |
| torch | a step of training that is traced | the same step untraced |

Other programs make some measurements slower and none faster: of each side the quickest counts (of torch's
steps what paired.py says), and a ratio beyond its bound is measured again, up to TRIES times. The bounds
are about two and a half times what was measured when they were set. Exits with 1 when a bound is missed, or
with CI set when a gate cannot be measured. `make bench-gate` is the long form, --short is part of `make
test`.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/integration")]

import harness  # noqa: E402

TRIES = 3
CLIENTS = ROOT / "build/clients-venv/bin"
TORCH = ROOT / "build/torch-venv/bin/python"
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000


class Missing(Exception):
    """What a gate needs is not installed."""


@dataclass(frozen=True)
class Gate:
    name: str
    measure: Callable[[bool], dict[str, float]]  # whether in short → what is bounded: ours / theirs
    bounds: dict[str, float]


def be_urgent() -> None:
    """What other programs do to a command of some milliseconds would hide what we do. Needs root."""
    if os.getuid() == 0:
        os.setpriority(os.PRIO_PROCESS, 0, -15)


def run_ms(command: list[str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=harness.clean_environment(),
        preexec_fn=be_urgent,
    )
    took = (time.perf_counter() - began) * 1000
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.decode()[-300:]}")
    return took


# ── inject ───────────────────────────────────────────────────────────────────────────────────


def stop_and_go(pid: int) -> float:
    """The least that holds a thread: for how many microseconds."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(PTRACE_SEIZE, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "PTRACE_SEIZE")
    began = time.perf_counter()
    libc.ptrace(PTRACE_INTERRUPT, pid, None, None)
    while os.waitpid(pid, WALL | os.WNOHANG)[0] == 0:  # being woken up would take longer
        pass
    libc.ptrace(PTRACE_DETACH, pid, None, None)
    return (time.perf_counter() - began) * 1e6


def inject(short: bool) -> dict[str, float]:
    """Both by the clock of the one that holds. What the thread itself sees is more than that on a busy
    machine, where its helper and it may share a core: bench/inject.py measures that."""
    probing = str(harness.BIN / "probing")
    with tempfile.TemporaryDirectory() as folder:
        program = str(harness.compile_target("clock_gap", Path(folder)))
        target = harness.Target([program], Path(folder), {})
        held: dict[str, list[float]] = {"ours": [], "theirs": []}
        harness.Cli(harness.BIN)("status").expect(0)  # a probingd with the usual priority
        began, seconds = time.monotonic(), 10 if short else 60
        be_urgent()
        try:
            while len(held["ours"]) < 5 or (time.monotonic() < began + seconds and len(held["ours"]) < 40):
                held["theirs"].append(stop_and_go(target.pid))
                injected = subprocess.run(
                    [probing, "-t", str(target.pid), "inject", "--no-python", "--json"],
                    capture_output=True,
                    check=True,
                    env=harness.clean_environment(),
                )
                held["ours"].append(json.loads(injected.stdout)["held_us"])
                run_ms([probing, "-t", str(target.pid), "eject"])
            target.expect_unharmed()
        finally:
            if os.getuid() == 0:
                os.setpriority(os.PRIO_PROCESS, 0, 0)
            target.kill()
    return {"thread held": min(held["ours"]) / min(held["theirs"])}


# ── backtrace ────────────────────────────────────────────────────────────────────────────────


def children_cpu_ms() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1000


def backtrace(short: bool) -> dict[str, float]:
    """Theirs by its CPU time: it takes so long that on a busy machine it never runs without a pause."""
    py_spy = CLIENTS / "py-spy"
    if not py_spy.exists():
        raise Missing("py-spy (tools/install_deps.sh clients)")
    with tempfile.TemporaryDirectory() as folder:
        program = [sys.executable, str(harness.TARGETS / "target_crowd.py"), "20"]
        target = harness.Target(program, Path(folder), {})
        harness.Cli(harness.BIN)("status").expect(0)
        ours, theirs = [], []
        try:
            for _ in range(15 if short else 60):
                ours.append(run_ms([str(harness.BIN / "probing"), "-t", str(target.pid), "backtrace"]))
                before = children_cpu_ms()
                run_ms([str(py_spy), "dump", "--pid", str(target.pid)])
                theirs.append(children_cpu_ms() - before)
            target.expect_unharmed()
        finally:
            target.kill()
    return {"whole command": min(ours) / min(theirs)}


# ── query ────────────────────────────────────────────────────────────────────────────────────

ROWS = 100_000
QUESTION = "SELECT name, avg(loss), count(*) FROM {table} GROUP BY name"
JOB = """
import sys
sys.path.insert(0, sys.argv[1])
import probing

@probing.table(name="gate")
class Gate:
    step: int
    loss: float
    name: str

names = ["model.layers.%d.attention.forward" % i for i in range(50)]
rows = int(sys.argv[2])
assert Gate.append_many(Gate(i, i % 100 * 0.01, names[i % 50]) for i in range(rows)) == rows
print("ready", flush=True)
sys.stdin.read()
"""
DUCKDB = """
import sys, time
import duckdb
connection = duckdb.connect()
connection.execute("SET threads = 1")
connection.execute("CREATE TABLE gate AS SELECT i AS step, i % 100 * 0.01 AS loss,"
                   " 'model.layers.' || (i % 50) || '.attention.forward' AS name FROM range({rows}) t(i)")
print("ready", flush=True)
for line in sys.stdin:
    began = time.perf_counter()
    assert len(connection.execute(line).fetchall()) == 50
    print((time.perf_counter() - began) * 1000, flush=True)
"""


def query(short: bool) -> dict[str, float]:
    if subprocess.run([CLIENTS / "python", "-c", "import duckdb"], capture_output=True).returncode:
        raise Missing("duckdb (tools/install_deps.sh clients)")
    environment = harness.clean_environment(
        PROBING_LIBRARY=str(harness.BIN / "libprobing.so"), PROBING_TABLE_ROWS=str(ROWS)
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    job = subprocess.Popen(
        [sys.executable, "-c", JOB, str(ROOT / "python"), str(ROWS)], env=environment, **pipes
    )
    plain = subprocess.Popen([CLIENTS / "python", "-c", DUCKDB.replace("{rows}", str(ROWS))], **pipes)
    ours, theirs = [], []
    try:
        assert job.stdout.readline() == plain.stdout.readline() == "ready\n"
        harness.Cli(harness.BIN)("status").expect(0)
        asked = json.dumps({"target": job.pid, "sql": QUESTION.format(table="python.gate")})
        for _ in range(30 if short else 200):
            began = time.perf_counter()
            answer = harness.from_daemon("POST", "/api/v1/query", asked)
            ours.append((time.perf_counter() - began) * 1000)
            assert len(json.loads(answer)["rows"]) == 50, answer
            plain.stdin.write(QUESTION.format(table="gate") + "\n")
            plain.stdin.flush()
            theirs.append(float(plain.stdout.readline()))
    finally:
        for one in (job, plain):
            one.kill()
            one.communicate()
    return {"group by over HTTP": min(ours) / min(theirs)}


# ── ring ─────────────────────────────────────────────────────────────────────────────────────


def ring(short: bool) -> dict[str, float]:
    program = harness.BIN / "ring_bench"
    if not program.exists():
        raise Missing("ring_bench (cmake --build build/release --target ring_bench)")
    text = subprocess.run(
        [program, "50" if short else "500"], check=True, capture_output=True, text=True
    ).stdout

    def figure(pattern: str) -> float:
        found = re.search(pattern, text, re.MULTILINE)
        assert found is not None, text
        return float(found[1])

    limit = figure(r"^limit: clock_gettime\(.*\) +([\d.]+) ns") + figure(
        r"^limit: memcpy of the 41 .* ([\d.]+) ns"
    )
    scan = figure(r"^scan +10000 rows: time, int, double, int .* ([\d.]+) us")
    return {
        "row written": figure(r"^write, 1 thread, clock, short text +([\d.]+) ns") / limit,
        "columns read": scan / figure(r"^limit: memcpy of the same four columns .* ([\d.]+) us"),
    }


# ── torch ────────────────────────────────────────────────────────────────────────────────────

TRACED = """
import os, sys
sys.path[:0] = [sys.argv[1] + "/bench", sys.argv[1] + "/python"]
os.environ["PROBING_LIBRARY"] = sys.argv[1] + "/build/release/bin/libprobing.so"
import torch_steps
torch_steps.prepare()
step = torch_steps.trainer("mlp")
torch_steps.warm(step)
ratios, _ = torch_steps.measure("every step", "mlp", step, float(sys.argv[2]))
print(ratios["cpu"].middle)
"""


def torch(short: bool) -> dict[str, float]:
    if not TORCH.exists():
        raise Missing("torch (tools/install_deps.sh torch)")
    command = [str(TORCH), "-c", TRACED, str(ROOT), "8" if short else "60"]
    done = subprocess.run(command, capture_output=True, text=True, env=harness.clean_environment())
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    # What is added, in per cent: 5 times 3.6 % are not 5 times 1.036. Below half a per cent it is noise.
    return {"every step traced, % more": 100 * (float(done.stdout) - 1)}


GATES = (
    Gate("inject", inject, {"thread held": 6}),
    Gate("backtrace", backtrace, {"whole command": 1}),
    Gate("query", query, {"group by over HTTP": 3}),
    Gate("ring", ring, {"row written": 5, "columns read": 8}),
    Gate("torch", torch, {"every step traced, % more": 7}),
)


def judge(gate: Gate, short: bool) -> tuple[dict[str, float], list[str]]:
    """The least of each ratio, and which of them are beyond their bounds."""
    least: dict[str, float] = {}
    for _ in range(TRIES):
        for what, ratio in gate.measure(short).items():
            least[what] = min(ratio, least.get(what, ratio))
        missed = [what for what, most in gate.bounds.items() if not least[what] <= most]
        if not missed:
            break
    return least, missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--junit", type=Path)
    options = parser.parse_args()
    suite = ElementTree.Element("testsuite", name="bench gate")
    before, red = harness.daemons([harness.BIN]), False
    for gate in GATES:
        if options.only and gate.name not in options.only.split(","):
            continue
        began = time.monotonic()
        case = ElementTree.SubElement(suite, "testcase", classname="gate", name=gate.name)
        try:
            ratios, missed = judge(gate, options.short)
        except Missing as missing:
            print(f"{gate.name:<12} not measured: needs {missing}", flush=True)
            ElementTree.SubElement(case, "skipped", message=f"needs {missing}")
            red = red or bool(os.environ.get("CI"))
            continue
        took = time.monotonic() - began
        for what, ratio in ratios.items():
            verdict = "MISSED" if what in missed else "ok"
            bound = f"≤ {gate.bounds[what]:g}"
            print(f"{gate.name:<12}{what:<28}{ratio:>8.2f}  {bound:<8}{verdict:<8}{took:>5.1f} s", flush=True)
        if missed:
            ElementTree.SubElement(case, "failure", message=f"{missed} of {ratios}")
            red = True
    for pid in harness.daemons([harness.BIN]) - before:
        harness.stop_process(pid)
    if options.junit:
        ElementTree.ElementTree(suite).write(options.junit)
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())
