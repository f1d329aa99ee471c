#!/usr/bin/env python3
"""What an answer of probingd takes: latency over keep-alive, requests per second, memory.

    server.py [--seconds S] [--clients N]

A target is probed and served on a loopback address. One client asks one thing at a time over one
connection (p50, p99); then N clients, each a process of its own, ask for `SELECT 1` side by side; then
once more while 100 others follow events. Writes JSON to bench/results/.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import socket
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/integration"))

import harness  # noqa: E402
from users import free_port  # noqa: E402

GROUP_BY = "SELECT i % 100 AS k, count(*), avg(i) FROM range(10000) t(i) GROUP BY k"


def request(method: str, path: str, body: Any = None) -> bytes:
    data = json.dumps(body).encode() if body is not None else b""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n"
    return head.encode() + (b"Content-Type: application/json\r\n" if data else b"") + b"\r\n" + data


def ask(connection: socket.socket, data: bytes) -> None:
    """Sends a request and reads its whole answer; nothing else takes time here."""
    connection.sendall(data)
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(1 << 20)
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(answer.decode(errors="replace"))
    left = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]) - len(body)
    while left > 0:
        left -= len(connection.recv(1 << 20))


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


def measure_many(port: int, data: bytes, seconds: float, clients: int) -> list[float]:
    with multiprocessing.Pool(clients) as pool:
        results = pool.starmap(measure, [(port, data, seconds)] * clients)
    return [one for times in results for one in times]


def percentile(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def describe(what: str, times: list[float], seconds: float) -> dict[str, Any]:
    row = {
        "what": what,
        "per_second": round(len(times) / seconds),
        "p50_ms": round(statistics.median(times), 3),
        "p99_ms": round(percentile(times, 0.99), 3),
    }
    print(f"{what:44} {row['per_second']:>7}/s   p50 {row['p50_ms']:>8} ms   p99 {row['p99_ms']:>8} ms")
    return row


def follow_events(port: int, count: int) -> list[socket.socket]:
    followers = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(b"GET /api/v1/events?interval=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        followers.append(connection)
    return followers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--clients", type=int, default=50)
    options = parser.parse_args()
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
        many = measure_many(port, questions["SELECT 1"], options.seconds, options.clients)
        rows.append(describe(f"SELECT 1, {options.clients} clients", many, options.seconds))
        followers = follow_events(port, 100)
        times = measure(port, questions["SELECT 1"], options.seconds)
        rows.append(describe("SELECT 1, 100 others follow events", times, options.seconds))
        memory_kb = int(harness.proc_status(daemon, "VmRSS").split()[0])
        print(f"probingd: {memory_kb / 1024:.1f} MB")
        for follower in followers:
            follower.close()
    finally:
        probing("serve", "--listen", port, "--close")
        target.kill()
    results = ROOT / "bench/results"
    results.mkdir(exist_ok=True)
    record = {"machine": platform.platform(), "date": time.strftime("%F"), "rss_kb": memory_kb, "rows": rows}
    (results / "server.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
