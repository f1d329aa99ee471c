"""A probingd on the network, for the tests that ask it."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import subprocess
from dataclasses import dataclass
from typing import Any

from users import User, uids

THREE_THREADS = """
import threading, time
def wait_in_thread(): time.sleep(600)
for _ in range(2): threading.Thread(target=wait_in_thread, daemon=True).start()
def outer(): inner()
def inner():
    print('ready', flush=True)
    time.sleep(600)
outer()
"""


@dataclass(frozen=True)
class Served:
    user: User
    port: int
    pid: int
    token: str

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def raw(self, data: bytes, timeout: float = 20, has_more: bool = True) -> bytes:
        """What comes back until the server closes; by root, who needs no token either."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection:
            with contextlib.suppress(ConnectionError):
                connection.sendall(data)
                if not has_more:
                    connection.shutdown(socket.SHUT_WR)
            return read_all(connection)

    def http(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        data = json.dumps(body) if body is not None else None
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if data is not None:
            fields.setdefault("Content-Type", "application/json")
        connection.request(method, path, data, fields)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, content, response.headers

    def json(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        status, content, _ = self.http(method, path, body, **headers)
        assert status == 200, content
        return json.loads(content)


def read_all(connection: socket.socket) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65536):
            data += piece
    return data


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def as_stranger(
    served: Served, *headers: str, path: str = "/api/v1/targets", uid: int | None = None
) -> tuple[int, str]:
    """curl by a user who is neither the owner nor root; another one each time unless named."""
    stranger = uid or next(uids)
    command = ["setpriv", f"--reuid={stranger}", f"--regid={stranger}", "--clear-groups", "curl", "-sS"]
    for header in headers:
        command += ["-H", header]
    command += ["-w", "\n%{http_code}", f"http://{served.address}{path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    text, _, status = done.stdout.rpartition("\n")
    return int(status), text
