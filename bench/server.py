#!/usr/bin/env python3
"""What an answer of probingd takes: latency over keep-alive, requests per second, memory.

    server.py [--seconds S] [--clients N]

A target is probed and served on a loopback address. One client asks one thing at a time over one
connection (p50, p99). Then wrk: probingd and its workers on one core, N clients on the other, as fast as
they can (all the same question, which is answered once for those who ask together, and 50 different ones); N
clients that ask 1,000 times a second between them (paced.py); both once more while 100 others follow events,
and charts. Last the job: the time of its steps alone, with that load on the other core, and with a busy loop
there which has nothing to do with us, in turns. Writes JSON to bench/results/.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/integration"), str(ROOT / "bench")]

import harness  # noqa: E402
from lean_http import ask, request  # noqa: E402
from paced import ask_at_pace  # noqa: E402
from promises import Promises  # noqa: E402
from users import free_port  # noqa: E402

GROUP_BY = "SELECT i % 100 AS k, count(*), avg(i) FROM range(10000) t(i) GROUP BY k"


def measure(port: int, data: bytes, seconds: float) -> list[float]:
    """Milliseconds of each answer, one after the other."""
    times = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(10):
            ask(connection, data)
        end = time.perf_counter() + seconds
        while (started := time.perf_counter()) < end:
            ask(connection, data)
            times.append((time.perf_counter() - started) * 1000)
    return times


SELECT_1 = """wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"sql": "SELECT 1"}'
"""
SELECTS = """wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local n = 0
request = function()
  n = n + 1
  return wrk.format(nil, nil, nil, '{"sql": "SELECT ' .. n % 50 .. '"}')
end
"""
MS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


def wrk(port: int, path: str, seconds: float, clients: int, script: str = "") -> dict[str, float]:
    """Requests per second and latencies of `clients` connections, each asking again at once; on core 1."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as lua:
        lua.write(script)
        lua.flush()
        command = [
            "taskset",
            "-c",
            "1",
            "wrk",
            "-t1",
            f"-c{clients}",
            f"-d{max(1, round(seconds))}s",
            "--latency",
        ]
        command += ["-s", lua.name] if script else []
        done = subprocess.run([*command, f"http://127.0.0.1:{port}{path}"], capture_output=True, text=True)
    if done.returncode != 0 or "Non-2xx" in done.stdout:
        raise RuntimeError(done.stdout + done.stderr)
    shares = re.findall(r"^ +(50|99)% +([\d.]+)(us|ms|s)$", done.stdout, re.MULTILINE)
    p50, p99 = (float(value) * MS[unit] for _, value, unit in shares)
    rate = re.search(r"Requests/sec: +([\d.]+)", done.stdout)
    return {"per_second": round(float(rate[1])), "p50_ms": round(p50, 3), "p99_ms": round(p99, 3)}


def put_on_core(pid: int, core: int) -> None:
    """A process, its threads and its children."""
    children = [
        child
        for each in Path(f"/proc/{pid}/task").iterdir()
        for child in (each / "children").read_text().split()
    ]
    for each in [pid, *map(int, children)]:
        subprocess.run(["taskset", "-acp", str(core), str(each)], check=True, capture_output=True)


STEPS = """
import sys, time
print("ready", flush=True)
with open(sys.argv[1], "w") as out:
    while True:
        start = time.monotonic_ns()
        total = 0
        for i in range(30000): total += i * i
        out.write("%d %d\\n" % (start, time.monotonic_ns() - start))
"""


def busy_loop(seconds: float) -> None:
    subprocess.run(
        [
            "taskset",
            "-c",
            "1",
            sys.executable,
            "-c",
            f"import time\nend = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass",
        ],
        check=True,
    )


def steps_under_load(probing: harness.Cli, seconds: float, clients: int) -> dict[str, float]:
    """Median time of a step on core 0, alone, with the load on core 1 and with another one, in turns."""
    with tempfile.NamedTemporaryFile() as file:
        command = ["taskset", "-c", "0", sys.executable, "-c", STEPS, file.name]
        job = harness.Target(command, Path("/tmp"), {})
        port = free_port()
        loads: dict[str, Callable[[], object]] = {
            "alone": lambda: time.sleep(1),
            "loaded": lambda: wrk(port, "/api/v1/query", 1, clients, SELECT_1),
            "busy_loop": lambda: busy_loop(1),
        }
        try:
            probing("-t", job.pid, "inject", "--listen", port).expect(0)
            put_on_core(probing("status", "--json").expect(0).json["pid"], 1)
            time.sleep(1)
            turns = []
            for _ in range(2 * int(seconds)):
                for name, load in loads.items():
                    begin = time.monotonic_ns()
                    load()
                    turns.append((begin, time.monotonic_ns(), name))
            time.sleep(0.5)
            rows = [tuple(map(int, line.split())) for line in Path(file.name).read_text().splitlines()[:-1]]
        finally:
            probing("serve", "--listen", port, "--close")
            job.kill()
    medians: dict[str, list[float]] = {name: [] for name in loads}
    for begin, end, name in turns:
        inside = [took for start, took in rows if begin < start and start + took < end]
        medians[name].append(statistics.median(inside))
    result = {f"{name}_us": round(statistics.median(times) / 1000, 1) for name, times in medians.items()}
    for name in ("loaded", "busy_loop"):
        pairs = zip(medians["alone"], medians[name], strict=True)
        result[f"{name}_percent"] = round(statistics.median(100 * (b / a - 1) for a, b in pairs), 2)
    return result


def percentile(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def describe(what: str, times: list[float], seconds: float) -> dict[str, Any]:
    row = {
        "per_second": round(len(times) / seconds),
        "p50_ms": round(statistics.median(times), 3),
        "p99_ms": round(percentile(times, 0.99), 3),
    }
    return show(what, row)


def show(what: str, row: dict[str, float]) -> dict[str, Any]:
    print(f"{what:44} {row['per_second']:>7}/s   p50 {row['p50_ms']:>8} ms   p99 {row['p99_ms']:>8} ms")
    return {"what": what, **row}


CHARTS = {
    "cpu": "SELECT timestamp, cpu_percent FROM system.cpu WHERE timestamp > now() - interval '5 minutes'",
    "memory": "SELECT timestamp, rss FROM system.memory WHERE timestamp > now() - interval '5 minutes'",
}


@contextlib.contextmanager
def open_pages(port: int, count: int, **what: str) -> Iterator[None]:
    """They follow the list of processes, or what is named, and ask nothing else."""
    query = urllib.parse.urlencode({"interval": "1", **what})
    with contextlib.ExitStack() as connections:
        for _ in range(count):
            connection = connections.enter_context(socket.create_connection(("127.0.0.1", port)))
            connection.sendall(request("GET", f"/api/v1/events?{query}"))
        yield


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--clients", type=int, default=50)
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("there is no wrk: tools/install_deps.sh bench")
    if os.cpu_count() == 1:
        sys.exit("one core cannot be divided between probingd and its clients")
    probing = harness.Cli(harness.BIN)
    target = harness.Target([sys.executable, str(harness.TARGETS / "target_sleep.py")], Path("/tmp"), {})
    port = free_port()
    rows = []
    try:
        probing("-t", target.pid, "inject", "--listen", port).expect(0)
        daemon = probing("status", "--json").expect(0).json["pid"]
        questions = {
            "health": request("GET", "/api/v1/health"),
            "the page": request("GET", "/"),
            "targets": request("GET", "/api/v1/targets"),
            "backtrace": request("GET", f"/api/v1/backtrace?target={target.pid}"),
            "SELECT 1": request("POST", "/api/v1/query", {"sql": "SELECT 1"}),
            "group by over 10,000 rows": request("POST", "/api/v1/query", {"sql": GROUP_BY}),
        }
        for what, data in questions.items():
            rows.append(describe(what, measure(port, data, options.seconds), options.seconds))
        put_on_core(daemon, 0)
        for what, path, clients, script in (
            ("SELECT 1, one client", "/api/v1/query", 1, SELECT_1),
            (f"SELECT 1, {options.clients} clients", "/api/v1/query", options.clients, SELECT_1),
            (f"SELECT 0 … 49, {options.clients} clients", "/api/v1/query", options.clients, SELECTS),
            (
                f"backtrace, {options.clients} clients",
                f"/api/v1/backtrace?target={target.pid}",
                options.clients,
                "",
            ),
            (f"the page, {options.clients} clients", "/", options.clients, ""),
        ):
            rows.append(show(what, wrk(port, path, options.seconds, clients, script)))
        paced = (port, questions["SELECT 1"], options.clients, 1000, options.seconds)
        rows.append(
            describe(
                f"SELECT 1, {options.clients} clients at their pace", ask_at_pace(*paced), options.seconds
            )
        )
        for followed, what in (
            ("events", {}),
            ("charts", {"target": str(target.pid), "queries": json.dumps(CHARTS)}),
        ):
            with open_pages(port, 100, **what):
                result = wrk(port, "/api/v1/query", options.seconds, options.clients, SELECT_1)
                at_pace = ask_at_pace(*paced)
                memory_kb = int(harness.proc_status(daemon, "VmRSS").split()[0])
            rows.append(show(f"SELECT 1, {options.clients} clients, 100 follow {followed}", result))
            rows.append(describe("the same at their pace", at_pace, options.seconds))
        print(f"probingd: {memory_kb / 1024:.1f} MB")
    finally:
        probing("serve", "--listen", port, "--close")
        target.kill()
    steps = steps_under_load(probing, options.seconds, options.clients)
    print(
        f"a step of the job: {steps['alone_us']} us alone; with {options.clients} clients on the other core"
        f" {steps['loaded_percent']:+} %, with a busy loop there {steps['busy_loop_percent']:+} %"
    )
    results = ROOT / "bench/results"
    results.mkdir(exist_ok=True)
    record = {
        "machine": platform.platform(),
        "date": time.strftime("%F"),
        "rss_kb": memory_kb,
        "rows": rows,
    } | {"steps": steps}
    (results / "server.json").write_text(json.dumps(record, indent=1) + "\n")
    promises = Promises()
    by_name = {row["what"]: row["p50_ms"] for row in rows}
    promises.at_most("group by over 10,000 rows, p50", by_name["group by over 10,000 rows"], 2, "ms")
    promises.at_most("backtrace, p50", by_name["backtrace"], 10, "ms")
    # What our load takes from a job on another core that any other program there would not.
    more = steps["loaded_percent"] - steps["busy_loop_percent"]
    promises.at_most("a step of the job, longer than beside a busy loop", more, 1, "%")
    return promises.exit_code()


if __name__ == "__main__":
    sys.exit(main())
