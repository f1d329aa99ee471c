"""Everything at once: clients of all kinds, who ask, hang up in the middle, and send nonsense.

Afterwards nothing of it is left: the same daemon and target, no descriptor more, no query that goes on.
SERVER_LOAD_SECONDS=300 makes it long.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable

from harness import children_of, open_files, proc_status, wait_until
from serving import Served, read_all

SECONDS = float(os.environ.get("SERVER_LOAD_SECONDS", "4"))
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close() sends a reset


def connect(served: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), timeout=20)


def request(path: str, body: object = None) -> bytes:
    head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    if body is None:
        return (head + "\r\n").encode()
    text = json.dumps(body)
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()


def query(sql: str) -> bytes:
    return request("/api/v1/query", {"sql": sql})


def read_answer(connection: socket.socket) -> bytes:
    """One answer with a Content-Length."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536) or b"\r\n\r\n"
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
    while len(body) < length and (piece := connection.recv(65536)):
        body += piece
    return head + b"\r\n\r\n" + body


def ask(served: Served, dice: random.Random) -> None:
    """Questions over one connection, each of which must be answered."""
    with connect(served) as connection:
        for _ in range(20):
            number = dice.randrange(60)
            connection.sendall(
                query(f"SELECT {number} AS n, pid FROM probing.targets" if number < 3 else f"SELECT {number}")
            )
            answer = read_answer(connection)
            assert (
                answer.startswith(b"HTTP/1.1 200") and str(number).encode() in answer.split(b'"rows"')[1]
            ), answer


def ask_wrongly(served: Served, dice: random.Random) -> None:
    with connect(served) as connection:
        for sql in ("SELEC", "SELECT nope", "SELECT * FROM nothing.at_all", "CREATE TABLE t(i INT)"):
            connection.sendall(query(sql))
            assert b'{"error"' in read_answer(connection)


def hang_up(served: Served, dice: random.Random) -> None:
    """In the middle of something that takes long, or of the request, or of the answer."""
    slow = "SELECT count(*) FROM range(10000000000)"
    big = "SELECT * FROM range(300000)"
    with connect(served) as connection:
        data = dice.choice(
            [
                query(slow),
                query(big),
                query("SELECT 1") * 5,
                request(f"/api/v1/backtrace?target={served.pid}&native=true"),
                request("/api/v1/events?interval=0.1"),
                request("/api/v1/events?interval=0.1&sql=SELECT%201"),
                f"GET /api/v1/repl?target={served.pid} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
                "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode(),
                b"select 1\nbt\nselect 2\n",
            ]
        )
        connection.sendall(data[: dice.choice([len(data), len(data), len(data) // 2])])
        if dice.random() < 0.7:
            connection.settimeout(dice.random() * 0.2 + 0.001)
            with contextlib.suppress(TimeoutError):
                connection.recv(100)
        if dice.random() < 0.5:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def send_nonsense(served: Served, dice: random.Random) -> None:
    with connect(served) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(
            dice.choice(
                [
                    bytes(dice.randrange(256) for _ in range(200)) + b"\n",
                    b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5000,
                    b"POST /api/v1/query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                    b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
                    b"GET http://evil/ HTTP/1.1\r\nHost: evil\r\n\r\n",
                ]
            )
        )
        read_all(connection)


def look(served: Served, dice: random.Random) -> None:
    paths = ["/", "/api/v1/targets", f"/api/v1/backtrace?target={served.pid}", "/metrics", "/api/v1/tables"]
    with connect(served) as connection:
        for path in paths:
            connection.sendall(request(path))
            assert read_answer(connection).startswith(b"HTTP/1.1 200"), path


def connections(daemon: int) -> int:
    """Sockets and the like: files of /proc are kept open by the sampler, more of them as time goes by."""
    return sum(not name.startswith("/") for name in open_files(daemon).values())


def queries_running(daemon: int) -> list[int]:
    running = []
    for pid in children_of(daemon):
        with contextlib.suppress(OSError):
            if proc_status(pid, "State").startswith("R"):
                running.append(pid)
    return running


def load(served: Served, seconds: float) -> None:
    problems: list[str] = []
    end = time.monotonic() + seconds

    def run(what: Callable[[Served, random.Random], None], seed: int) -> None:
        dice = random.Random(seed)
        while time.monotonic() < end and not problems:
            try:
                what(served, dice)
            except Exception as problem:
                problems.append(f"{what.__name__}: {problem!r}")

    kinds = [ask, ask, ask, ask, ask_wrongly, hang_up, hang_up, hang_up, send_nonsense, look]
    threads = [threading.Thread(target=run, args=(kind, i)) for i, kind in enumerate(kinds)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems


def test_a_mixed_load_leaves_nothing_behind(served: Served) -> None:
    daemon = served.user("status", "--json").expect(0).json["pid"]
    load(served, SECONDS / 4)  # what is made once is there now
    files, memory = connections(daemon), int(proc_status(daemon, "VmRSS").split()[0])
    load(served, SECONDS)
    assert served.user("status", "--json").expect(0).json["pid"] == daemon
    wait_until(lambda: connections(daemon) <= files + 4, 15, f"descriptors are closed: there were {files}")
    wait_until(lambda: not queries_running(daemon), 15, "no query goes on")
    grown_kb = int(proc_status(daemon, "VmRSS").split()[0]) - memory
    assert grown_kb < 30_000, f"{grown_kb} KB more than before"
    assert served.json("POST", "/api/v1/query", {"sql": "SELECT 1"})["rows"] == [[1]]
