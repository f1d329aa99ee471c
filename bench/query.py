#!/usr/bin/env python3
"""What rows and questions cost: rings, Python calls, SQL by command line and over HTTP, memory.

    query.py [--quick]

Side by side with the PyPI package `probing` (in the bench's own venv) where it has the same thing, and with
DuckDB in the same process on a native table as the limit. Prints tables with ratios, writes JSON to
bench/results/. A loaded machine adds to every figure: compare ratios. Fails when a promise is not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/integration"), str(ROOT / "bench")]

import harness  # noqa: E402
import query_peers  # noqa: E402
import ring_python  # noqa: E402
from lean_http import ask, request  # noqa: E402

SMALL, LARGE = 10_000, 1_000_000

# What is asked, with the table that a tool has it in.
QUESTIONS = {
    "select 1": "SELECT 1",
    "10 k rows, group by int": "SELECT step % 100 AS k, avg(loss), count(*) FROM {small} GROUP BY k",
    "10 k rows, group by text": "SELECT name, avg(loss), count(*) FROM {small} GROUP BY name",
    "1 M rows, group by int": "SELECT step % 100 AS k, avg(loss), count(*) FROM {large} GROUP BY k",
    "1 M rows, group by text": "SELECT name, avg(loss), count(*) FROM {large} GROUP BY name",
}

# Writes the two tables and waits. Python 3.6 syntax is not needed: it runs in this Python.
JOB = """
import sys, time
sys.path.insert(0, sys.argv[1])
import probing

@probing.table(name="small")
class Small:
    step: int
    loss: float
    name: str

@probing.table(name="large")
class Large:
    step: int
    loss: float
    name: str

names = ["model.layers.%d.attention.forward" % i for i in range(50)]
for table, rows in ((Small, int(sys.argv[2])), (Large, int(sys.argv[3]))):
    stored = table.append_many(table(i, i % 100 * 0.01, names[i % 50]) for i in range(rows))
    assert stored == rows, (stored, rows)
print("ready", flush=True)
sys.stdin.read()
"""


def quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(q * (len(ordered) - 1)))]


def measure(times: int, act: Callable[[], object]) -> dict[str, float]:
    act()
    seen = []
    for _ in range(times):
        started = time.perf_counter()
        act()
        seen.append((time.perf_counter() - started) * 1000)
    return {"p50_ms": quantile(seen, 0.5), "p99_ms": quantile(seen, 0.99), "times": times}


# ── rings ────────────────────────────────────────────────────────────────────────────────────


def rings() -> dict[str, float]:
    """What build/release/bin/ring_bench says (C++)."""
    command = [str(harness.BIN / "ring_bench")]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = {}
    for threads in ("1 thread", "4 threads"):
        figures = r"\s+([\d.]+) ns.*?([\d.]+) M rows/s"
        line = re.search(rf"^write, {threads}, clock, short text{figures}", text, re.M)
        assert line is not None, text
        found[f"ns a row, {threads}"] = float(line[1])
        found[f"M rows/s, {threads}"] = float(line[2])
    for what in ("time, int, double, int", "string"):
        line = re.search(rf"^scan\s+{LARGE} rows: {re.escape(what)}\s+([\d.]+) M values/s", text, re.M)
        assert line is not None, text
        found[f"M values/s read, {what}"] = float(line[1])
    return found


def python_rows() -> dict[str, float]:
    command = [sys.executable, "-c", ring_python.JOB, str(ROOT / "python"), "20000", "15"]
    environment = harness.clean_environment(PROBING_LIBRARY=str(harness.BIN / "libprobing.so"))
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return {f"ns of {name}": cost["best_ns"] for name, cost in json.loads(done.stdout).items()}


# ── questions ────────────────────────────────────────────────────────────────────────────────


class Ours:
    """A job with both tables, its probingd, and one connection that stays open."""

    def __init__(self) -> None:
        environment = harness.clean_environment(
            PROBING_LIBRARY=str(harness.BIN / "libprobing.so"),
            PROBING_TABLE_ROWS=str(LARGE),
            PROBING_MAX_MEMORY="1GB",
        )
        self.job = subprocess.Popen(
            [sys.executable, "-c", JOB, str(ROOT / "python"), str(SMALL), str(LARGE)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.job.stdout is not None and self.job.stdout.readline() == b"ready\n"
        subprocess.run([str(harness.BIN / "probing"), "status"], check=True, capture_output=True)
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.settimeout(60)
        self.connection.connect(str(harness.daemon_socket()))

    def by_http(self, sql: str) -> list[list[Any]]:
        body = {"target": self.job.pid, "sql": sql}
        return json.loads(ask(self.connection, request("POST", "/api/v1/query", body)))["rows"]

    def by_command(self, sql: str) -> None:
        command = [str(harness.BIN / "probing"), "-t", str(self.job.pid), "query", "-f", "csv", sql]
        subprocess.run(command, check=True, capture_output=True, env=harness.clean_environment())

    def memory(self) -> dict[str, float]:
        found = {}
        workers = harness.query_workers([harness.BIN])
        for pid in workers | harness.daemons([harness.BIN]):
            name = "query worker" if pid in workers else "probingd"
            found[f"MB of {name}"] = int(harness.proc_status(pid, "VmRSS").split()[0]) / 1024
        return found

    def close(self) -> None:
        self.connection.close()
        self.job.kill()
        self.job.communicate()


def repetitions(question: str, quick: bool) -> int:
    return (5 if quick else 30) if question.startswith("1 M") else (20 if quick else 300)


def ask_all(quick: bool) -> dict[str, dict[str, dict[str, float] | None]]:
    """question → who → times; None where that one has no such thing."""
    ours, limit, peer = Ours(), query_peers.DuckDbInProcess.start(), query_peers.RustProbing.start()
    results: dict[str, dict[str, dict[str, float] | None]] = {}
    try:
        for question, template in QUESTIONS.items():
            times = repetitions(question, quick)
            sql = template.format(small="python.small", large="python.large")
            results[question] = {
                "HTTP": measure(times, lambda: ours.by_http(sql)),  # noqa: B023
                "command": measure(min(times, 50), lambda: ours.by_command(sql)),  # noqa: B023
                "DuckDB": limit.measure(template, times),
                "peer inside": peer.measure_inside(template, min(times, 50)),
                "peer command": peer.measure_command(template, min(times, 20)),
            }
        results["memory"] = ours.memory() | {"ns of append, peer": peer.append_ns}  # type: ignore[assignment]
    finally:
        for one in (ours, limit, peer):
            one.close()
    return results


# ── what is printed ──────────────────────────────────────────────────────────────────────────


def cell(times: dict[str, float] | None) -> str:
    return "–" if times is None else f"{times['p50_ms']:.2f} / {times['p99_ms']:.2f}"


def ratio(of: dict[str, float] | None, to: dict[str, float] | None) -> str:
    return "–" if of is None or to is None else f"{of['p50_ms'] / to['p50_ms']:.2f}×"


def print_questions(results: dict[str, Any]) -> None:
    columns = ["HTTP", "command", "DuckDB", "HTTP : DuckDB", "peer inside", "peer command", "peer : ours"]
    print(f"\n{'p50 / p99 in ms':26}" + "".join(f"{name:>22}" for name in columns))
    for question in QUESTIONS:
        row = results[question]
        cells = [cell(row[name]) for name in columns[:3]] + [ratio(row["HTTP"], row["DuckDB"])]
        cells += [cell(row["peer inside"]), cell(row["peer command"])]
        cells.append(ratio(row["peer command"], row["command"]))
        print(f"{question:26}" + "".join(f"{text:>22}" for text in cells))


def broken_promises(results: dict[str, Any], figures: dict[str, float]) -> list[str]:
    """A group-by of a million rows may take 20 ms, or half as long again as DuckDB's own table."""
    broken = []

    def check(what: str, value: float, most: float) -> None:
        if value > most:
            broken.append(f"{what}: {value:.2f}, promised {most:g}")

    check("HTTP select 1, p50 ms", results["select 1"]["HTTP"]["p50_ms"], 0.5)
    check("command select 1, p50 ms", results["select 1"]["command"]["p50_ms"], 10)
    for question in QUESTIONS:
        row = results[question]
        if question.startswith("10 k"):
            check(f"HTTP {question}, p50 ms", row["HTTP"]["p50_ms"], 2)
        if question.startswith("1 M"):
            native = row["DuckDB"]["p50_ms"] if row["DuckDB"] else 0
            check(f"HTTP {question}, p50 ms", row["HTTP"]["p50_ms"], max(20, 1.5 * native))
    check("C++ row, ns", figures["ns a row, 1 thread"], 60)
    check("Python row, ns", figures["ns of append"], 250)
    if figures["M values/s read, time, int, double, int"] < 100:
        broken.append("scan: less than 100 M values/s")
    return broken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    options = parser.parse_args()
    figures = rings() | python_rows()
    results = ask_all(options.quick)
    figures |= results.pop("memory")
    for name, value in figures.items():
        print(f"{name:44}{value:10.1f}")
    print_questions(results)
    folder = ROOT / "bench/results"
    folder.mkdir(exist_ok=True)
    path = folder / f"query-{time.strftime('%Y%m%d-%H%M%S')}.json"
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    content = {"machine": machine, "figures": figures, "questions": results}
    path.write_text(json.dumps(content, indent=2) + "\n")
    broken = broken_promises(results, figures)
    for line in broken:
        print(f"not kept: {line}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
