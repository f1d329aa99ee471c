"""Many clients that ask at their own pace, as open pages do: wrk's ask again at once, so that with 50 of them
the time of an answer is that of the 49 before it."""

from __future__ import annotations

import os
import selectors
import socket
import time


def ask_at_pace(port: int, data: bytes, clients: int, per_second: float, seconds: float) -> list[float]:
    """Milliseconds of each answer, counted from when its question was due. On core 1."""
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {1})
    selector = selectors.DefaultSelector()
    idle = []
    for _ in range(clients):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(connection, selectors.EVENT_READ, [0.0])
        idle.append(connection)
    times: list[float] = []
    waiting: list[float] = []  # questions that are due while all clients wait for an answer
    begun = time.perf_counter()
    asked = 0
    total = int(per_second * seconds)
    while len(times) < total:
        now = time.perf_counter()
        while asked < total and now >= begun + asked / per_second:
            waiting.append(begun + asked / per_second)
            asked += 1
        while waiting and idle:
            connection = idle.pop(0)
            selector.get_key(connection).data[0] = waiting.pop(0)
            connection.sendall(data)
        pause = max(0.0, begun + asked / per_second - time.perf_counter()) if asked < total else 1.0
        for key, _ in selector.select(pause):
            if b" 200 " not in key.fileobj.recv(65536)[:20]:
                raise RuntimeError("an answer was not 200")
            times.append((time.perf_counter() - key.data[0]) * 1000)
            idle.append(key.fileobj)
    for key in list(selector.get_map().values()):
        key.fileobj.close()
    os.sched_setaffinity(0, affinity)
    return times
