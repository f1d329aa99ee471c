"""A server of the tests' own that takes what probingd sends, and remembers it."""

from __future__ import annotations

import json
import ssl
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass
class Post:
    path: str
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """Answers `status`, after `delay` seconds; a failing server says again all that it was told."""

    def __init__(self, certificate: Path | None = None) -> None:
        self.posts: list[Post] = []
        self.status, self.delay = 200, 0.0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.posts.append(Post(self.path, dict(self.headers.items()), body, time.monotonic()))
                time.sleep(outer.delay)
                self.send_response(outer.status, f"as you said: {self.path}")
                self.send_header("X-Echo", str(self.headers.get("Authorization")))
                self.end_headers()
                self.wfile.write(f"{self.path} {self.headers}".encode())

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def port(self) -> int:
        return self.server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
