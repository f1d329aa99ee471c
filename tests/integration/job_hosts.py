"""Hosts that ask each other: users of this machine, each with a probingd, stand for them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import harness
import pytest
from harness import Answer, Cli, wait_until
from users import User, free_port, uids

TOKEN = "a-token-that-all-hosts-have"
VERSION = re.findall(r"VERSION ([\d.]+)", (harness.ROOT / "CMakeLists.txt").read_text())[1]
RANKS_PER_HOST = 2
STEPS = 60

# Rows as the probe's tracer writes them, the same at every run: what is compared must not move.
RANK = """
import os, random, sys, time
sys.path.insert(0, PACKAGE)
import probing
from probing import _native
rank = int(os.environ["RANK"])
chance = random.Random(rank)
steps = _native.Table("python.torch_steps")
collectives = _native.Table("python.collectives")
starts = _native.Table("python.collective_starts")
begun = time.time_ns() - STEPS * 10**9
for step in range(STEPS):
    stamp = begun + step * 10**9 + rank
    maybe = None if chance.random() < 0.2 else chance.random()
    duration = chance.choice([0.1, 0.25, chance.random()])
    row = (stamp, step, duration, maybe, chance.random(), chance.random(), chance.random(), 0.0)
    steps.append(*row) or steps.again(*row)
    op = chance.choice(["all_reduce", "all_gather", "broadcast \\u2192 \\U0001f600 and a longer name", ""])
    row = (stamp, step, "0", op, chance.randrange(2**40), "float32", "completed", None, chance.random(), step)
    collectives.append(*row) or collectives.again(*row)
    row = (stamp, step, "0", op, row[4], step, "float32")
    starts.append(*row) or starts.again(*row)
if rank == 0:
    @probing.table
    class OnlyHere:
        number: int
    OnlyHere(7).save()
print("ready", flush=True)
time.sleep(600)
"""


class Host:
    """`prefix` goes before all commands, so that they run elsewhere; `variables` are those of its ranks."""

    def __init__(
        self,
        probing: Cli,
        number: int,
        token: str = TOKEN,
        place: str = "127.0.0.1",
        port: int | None = None,
        prefix: tuple[str, ...] = (),
        **variables: str,
    ) -> None:
        self.user = User(probing, next(uids), prefix)
        self.token = token
        self.address = f"{place}:{port or free_port()}"
        self.settings = probing.bin / f"config-{self.user.uid}"
        self.settings.mkdir(mode=0o700)
        os.chown(self.settings, self.user.uid, self.user.uid)
        package = probing.bin / "python"
        self.ranks = [number * RANKS_PER_HOST + local for local in range(RANKS_PER_HOST)]
        self.code = code = RANK.replace("PACKAGE", repr(str(package))).replace("STEPS", str(STEPS))
        for rank in self.ranks:
            self.start_rank(code, rank, **variables)
        self.listen()
        wait_until(lambda: len(self("list", "--json").expect(0).json) == RANKS_PER_HOST, 20, "both ranks")

    def start_rank(self, code: str, rank: int, **variables: str) -> subprocess.Popen[bytes]:
        library = str(self.user.bin / "libprobing.so")
        variables = {"PROBING_JOB": "hosts"} | variables
        return self.user.target(code, RANK=str(rank), PROBING_LIBRARY=library, **variables)

    def listen(self) -> None:
        self("config", f"probing.server.addr={self.address}").expect(0)

    def restart(self) -> None:
        """Its probingd, which forgets everything: who it is, its settings, its targets."""
        harness.stop_process(self.user.daemon())
        self.listen()

    def __call__(self, *arguments: object) -> Answer:
        return self.user(*arguments, PROBING_TOKEN=self.token, XDG_CONFIG_HOME=str(self.settings))

    def config(self, **settings: object) -> None:
        self("config", *(f"probing.cluster.{name}={value}" for name, value in settings.items())).expect(0)

    def nodes(self) -> list[dict]:
        return json.loads(self("query", "-f", "json", "SELECT * FROM cluster.nodes").expect(0).stdout)

    def epoch(self) -> int:
        return self.nodes()[0]["epoch"]

    def rows(self, sql: str, code: int = 0) -> list[dict]:
        return json.loads(self("query", "-f", "json", sql).expect(code).stdout)


def meet(hosts: list[Host], *more: str) -> None:
    seeds = ",".join([*(host.address for host in hosts), hosts[0].address, *more])  # one of them twice
    for host in hosts:
        host.config(peers=seeds, timeout=10)


@contextlib.contextmanager
def hosts(probing: Cli, count: int) -> Iterator[list[Host]]:
    if os.getuid() != 0:
        pytest.skip("only root can be somebody else")
    with_package(probing)
    started: list[Host] = []
    try:
        started.extend(Host(probing, number) for number in range(count))
        meet(started)
        yield started
    finally:
        for host in started:
            host.user.leave()


def with_package(probing: Cli) -> None:
    package = probing.bin / "python"
    if not package.exists():
        shutil.copytree(harness.ROOT / "python", package, ignore=shutil.ignore_patterns("__pycache__"))
        for path in [package, *package.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)


def receipt(host: Host, sql: str) -> dict:
    """As programs get it: beside the rows, and as a header."""
    script = (
        "import http.client, json, socket, sys\n"
        "class Unix(http.client.HTTPConnection):\n"
        "    def connect(self):\n"
        "        self.sock = socket.socket(socket.AF_UNIX); self.sock.connect(sys.argv[1])\n"
        "c = Unix('localhost'); c.request('POST', '/api/v1/query', json.dumps({'sql': sys.argv[2]}))\n"
        "a = c.getresponse(); body = json.load(a)\n"
        "assert json.loads(a.headers['Probing-Receipt']) == body['receipt'], a.headers\n"
        "print(json.dumps(body['receipt']))"
    )
    done = host.user.run("/usr/bin/python3", "-c", script, str(host.user.folder / "probingd.sock"), sql)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class FakePeer:
    """Says that it is a probingd: `answer` gets the first line of a request and its body, and returns
    a body, and fields of the head beside it. Listens on loopback, where nothing is encrypted."""

    def __init__(self, answer: Callable[[str, bytes], tuple[bytes, dict[str, str]]]) -> None:
        self._answer = answer
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                self._talk(connection)

    def _talk(self, connection: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65536)
        head, _, rest = data.partition(b"\r\n\r\n")
        length = re.search(rb"Content-Length: (\d+)", head)
        while length and len(rest) < int(length[1]):
            rest += connection.recv(65536)
        body, fields = self._answer(head.split(b"\r\n")[0].decode(), rest)
        fields = {"Content-Length": str(len(body))} | fields
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        connection.sendall(f"HTTP/1.1 200 OK\r\n{lines}\r\n".encode() + body)

    def __enter__(self) -> FakePeer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


def node_says(**more: object) -> bytes:
    """What a probingd says of itself."""
    fields = {"instance": "fake", "host": "h", "version": VERSION, "ranks": 1, "wall_ns": time.time_ns()}
    return json.dumps(fields | more).encode()


def frame(*columns: list[int | None]) -> bytes:
    """Rows of numbers, as probingd sends them to others (src/query/gathered_rows.h)."""
    head = struct.pack("<QQ", len(columns), len(columns[0])) + bytes(len(columns))
    cell = [b"\0" if x is None else b"\1" + struct.pack("<q", x) for column in columns for x in column]
    return head + b"".join(cell)
