"""Whom bench/query.py measures beside us: each answers the same questions about the same rows.

Both run in a process of the bench's own venv (build/bench-venv) and are told what to measure line by line, so
that nothing of ours is in their way.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / "build/bench-venv/bin"

# Reads {"sql", "times"} from stdin, answers with the times in ms; `ask` is what a peer has.
LOOP = """
def serve(ask):
    import json, sys, time
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        ask(order["sql"])
        seen = []
        for _ in range(order["times"]):
            started = time.perf_counter()
            ask(order["sql"])
            seen.append((time.perf_counter() - started) * 1000)
        seen.sort()
        last = len(seen) - 1
        answer = {"p50_ms": seen[round(last * 0.5)], "p99_ms": seen[round(last * 0.99)], "times": len(seen)}
        print(json.dumps(answer), flush=True)
"""

NAMES = "'model.layers.' || (i % 50) || '.attention.forward'"
DUCKDB = (
    LOOP
    + f"""
import duckdb
connection = duckdb.connect()
connection.execute("SET threads = 2")
connection.execute("SET enable_progress_bar = false")
for name, rows in (("small", 10_000), ("large", 1_000_000)):
    connection.execute(
        "CREATE TABLE " + name + " AS SELECT i AS step, (i % 100) * 0.01::DOUBLE AS loss, "
        "{NAMES} AS name FROM range(" + str(rows) + ") r(i)")
serve(lambda sql: connection.execute(sql).fetchall())
"""
)

RUST = (
    LOOP
    + """
import dataclasses, json, sys, time
import probing
from probing import _core
from probing.core.table import table

@table("small")
@dataclasses.dataclass
class Small:
    step: int
    loss: float
    name: str

@table("large")
@dataclasses.dataclass
class Large:
    step: int
    loss: float
    name: str

names = ["model.layers.%d.attention.forward" % i for i in range(50)]

def fill(name, rows):
    stored = probing.ExternalTable.get(name)
    started = time.perf_counter()
    for i in range(rows):
        stored.append([i, i % 100 * 0.01, names[i % 50]])
    return (time.perf_counter() - started) / rows * 1e9

append_ns = fill("small", 10_000)
has_large = append_ns * 1_000_000 < float(sys.argv[1]) * 1e9
if has_large:
    append_ns = min(append_ns, fill("large", 1_000_000))
print(json.dumps({"append_ns": append_ns, "has_large": has_large}), flush=True)

def ask(sql):
    answer = _core.query_json(sql)
    assert "error" not in answer[:40].lower(), answer[:300]

serve(ask)
"""
)


class Peer:
    """A process that measures by itself."""

    def __init__(self, code: str, *arguments: str, **environment: str) -> None:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PROBING", "PROBE"))}
        self.process = subprocess.Popen(
            [str(VENV / "python"), "-c", code, *arguments],
            env=clean | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            raise RuntimeError("the peer has ended")
        return line if line == "ready" else json.loads(line)

    def order(self, sql: str, times: int) -> dict[str, float]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"sql": sql, "times": times}) + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


class DuckDbInProcess(Peer):
    """The limit: no rings, no other process, nothing to encode."""

    @staticmethod
    def start() -> DuckDbInProcess:
        peer = DuckDbInProcess(DUCKDB)
        assert peer.read() == "ready"
        return peer

    def measure(self, template: str, times: int) -> dict[str, float]:
        return self.order(template.format(small="small", large="large"), times)


class RustProbing(Peer):
    """The PyPI package `probing`, whose engine is inside of the job."""

    append_ns = 0.0
    has_large = False  # where a million rows would take too long to write they are left out

    @staticmethod
    def start(most_seconds: float = 60) -> RustProbing:
        peer = RustProbing(RUST, str(most_seconds), PROBING="1")
        told = peer.read()
        peer.append_ns, peer.has_large = told["append_ns"], told["has_large"]
        assert peer.read() == "ready"
        return peer

    def has(self, template: str) -> bool:
        return self.has_large or "{large}" not in template

    def sql(self, template: str) -> str:
        return template.format(small="python.small", large="python.large")

    def measure_inside(self, template: str, times: int) -> dict[str, float] | None:
        """From within the job, without any transport."""
        return self.order(self.sql(template), times) if self.has(template) else None

    def measure_command(self, template: str, times: int) -> dict[str, float] | None:
        if not self.has(template):
            return None
        command = [str(VENV / "probing"), "-t", str(self.process.pid), "query", self.sql(template)]
        seen = []
        for _ in range(times):
            started = time.perf_counter()
            done = subprocess.run(command, capture_output=True, timeout=60)
            seen.append((time.perf_counter() - started) * 1000)
            if done.returncode != 0:
                return None
        seen.sort()
        last = len(seen) - 1
        return {"p50_ms": seen[round(last * 0.5)], "p99_ms": seen[round(last * 0.99)], "times": times}
