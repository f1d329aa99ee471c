"""Several hosts that ask each other: users of this machine, each with a probingd, stand for them."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import socket
import threading
import time
from collections.abc import Iterator

import harness
import pytest
from harness import Answer, Cli, wait_until
from other_machine import other_machine
from users import User, free_port, uids

TOKEN = "a-token-that-all-hosts-have"
HOSTS = 4
QUERIES = 500 if os.environ.get("PROBING_SOAK") == "1" else 100
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
if rank == 0:
    @probing.table
    class OnlyHere:
        number: int
    OnlyHere(7).save()
print("ready", flush=True)
time.sleep(600)
"""


class Host:
    def __init__(self, probing: Cli, number: int, token: str = TOKEN, place: str = "127.0.0.1") -> None:
        self.user = User(probing, next(uids))
        self.token = token
        self.address = f"{place}:{free_port()}"
        self.settings = probing.bin / f"config-{self.user.uid}"
        self.settings.mkdir(mode=0o700)
        os.chown(self.settings, self.user.uid, self.user.uid)
        package = probing.bin / "python"
        self.ranks = [number * RANKS_PER_HOST + local for local in range(RANKS_PER_HOST)]
        code = RANK.replace("PACKAGE", repr(str(package))).replace("STEPS", str(STEPS))
        for rank in self.ranks:
            self.user.target(
                code, RANK=str(rank), PROBING_JOB="hosts", PROBING_LIBRARY=str(probing.bin / "libprobing.so")
            )
        self("config", f"probing.server.addr={self.address}").expect(0)
        wait_until(lambda: len(self("list", "--json").expect(0).json) == RANKS_PER_HOST, 20, "both ranks")

    def __call__(self, *arguments: object) -> Answer:
        return self.user(*arguments, PROBING_TOKEN=self.token, XDG_CONFIG_HOME=str(self.settings))

    def config(self, **settings: object) -> None:
        self("config", *(f"probing.cluster.{name}={value}" for name, value in settings.items())).expect(0)

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


@pytest.fixture(scope="module")
def cluster(public_probing: Cli) -> Iterator[list[Host]]:
    """Those that nobody harms."""
    with hosts(public_probing, HOSTS) as started:
        yield started


@pytest.fixture
def pair(public_probing: Cli) -> Iterator[list[Host]]:
    """Two that a test may do anything to."""
    with hosts(public_probing, 2) as started:
        yield started


def with_package(probing: Cli) -> None:
    package = probing.bin / "python"
    if not package.exists():
        shutil.copytree(harness.ROOT / "python", package, ignore=shutil.ignore_patterns("__pycache__"))
        for path in [package, *package.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)


ALL_RANKS = list(range(HOSTS * RANKS_PER_HOST))
ALL_ROWS = len(ALL_RANKS) * STEPS


def test_every_host_sees_the_ranks_of_all(cluster: list[Host]) -> None:
    sql = (
        "SELECT rank, count(*) AS n, sum(duration) AS s FROM global.python.torch_steps GROUP BY 1 ORDER BY 1"
    )
    answers = [host.rows(sql) for host in cluster]
    assert [row["rank"] for row in answers[0]] == ALL_RANKS
    assert all(row["n"] == STEPS for row in answers[0])
    assert answers[0] == answers[1] == answers[2]
    own = [row for host in cluster for row in host.rows(sql.replace("global.", ""))]
    assert own == answers[0]


def test_a_table_without_global_is_about_one_host(cluster: list[Host]) -> None:
    assert cluster[1].rows("SELECT count(*) AS n FROM python.torch_steps") == [{"n": STEPS * RANKS_PER_HOST}]
    assert "answered" not in cluster[1]("query", "SELECT count(*) FROM python.torch_steps").expect(0).stderr


def test_only_the_number_of_rows(cluster: list[Host]) -> None:
    assert cluster[0].rows("SELECT count(*) AS n FROM global.python.torch_steps") == [{"n": ALL_ROWS}]


def test_a_table_that_other_hosts_do_not_have(cluster: list[Host]) -> None:
    """Nothing has failed there: they have no rows of it."""
    sql = "SELECT rank, number FROM global.python.only_here"
    assert cluster[0].rows(sql) == [{"rank": 0, "number": 7}]


def test_joins_across_hosts(cluster: list[Host]) -> None:
    sql = (
        "SELECT a.rank AS a, b.rank AS b, count(*) AS n FROM global.python.torch_steps a"
        " JOIN global.python.collectives b USING (step) GROUP BY ALL ORDER BY ALL"
    )
    assert cluster[0].rows(sql) == [{"a": a, "b": b, "n": STEPS} for a in ALL_RANKS for b in ALL_RANKS]


def test_times_are_exact_and_prune_what_is_shipped(cluster: list[Host]) -> None:
    stamps = [
        row for host in cluster for row in host.rows("SELECT timestamp_ns AS t FROM python.torch_steps")
    ]
    got = cluster[2].rows("SELECT timestamp_ns AS t FROM global.python.torch_steps")
    assert sorted(row["t"] for row in got) == sorted(row["t"] for row in stamps)
    sql = "SELECT rank, step, timestamp FROM global.python.torch_steps"
    middle = sorted(row["t"] for row in stamps)[len(stamps) // 2] // 1000
    recent = f"{sql} WHERE timestamp >= make_timestamp({middle})::TIMESTAMPTZ"
    whole, part = (cluster[0]("query", "-f", "json", each).expect(0) for each in (sql, recent))
    assert len(json.loads(part.stdout)) == sum(row["t"] // 1000 >= middle for row in stamps)
    assert 0 < receipt(cluster[0], recent)["bytes"] < receipt(cluster[0], sql)["bytes"] * 0.7
    assert f"{HOSTS} of {HOSTS} hosts answered" in whole.stderr


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


def test_the_receipt_is_in_the_answer(cluster: list[Host]) -> None:
    got = receipt(cluster[0], "SELECT count(*) FROM global.python.torch_steps")
    assert (got["expected"], got["answered"], got["failed"], got["dropped"]) == (HOSTS, HOSTS, [], 0)


def test_live_tables_and_views_are_gathered(cluster: list[Host]) -> None:
    stacks = cluster[0].rows("SELECT DISTINCT rank FROM global.python.backtrace ORDER BY rank")
    assert [row["rank"] for row in stacks] == ALL_RANKS
    answer = cluster[0]("cluster", "backtrace", "--json").expect(0).json
    assert sorted(rank for group in answer["groups"] for rank in group["ranks"]) == ALL_RANKS


def test_nodes_are_listed_with_their_clocks(cluster: list[Host]) -> None:
    nodes = cluster[0]("cluster", "nodes", "--json").expect(0).json
    assert len(nodes) == HOSTS and {node["state"] for node in nodes} == {"up"}
    assert {node["node"] for node in nodes} >= {host.address for host in cluster[1:]}
    for node in nodes:  # one machine, one clock
        assert abs(node["clock_offset_ms"]) <= node["clock_error_ms"] + 0.001
    assert cluster[0]("cluster").expect(0).stdout.count(" up ") == HOSTS


def test_two_that_name_each_other_do_not_ask_in_circles(cluster: list[Host]) -> None:
    """Also when all of them ask at once, more often than there are workers."""
    sql = "SELECT count(*) AS n FROM global.python.torch_steps"
    answers: list[Answer] = []

    def ask(host: Host) -> None:
        answers.append(host("query", "-f", "csv", sql))

    threads = [threading.Thread(target=ask, args=(host,)) for host in cluster * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(each.code, each.stdout.split()[-1]) for each in answers] == [(0, str(ALL_ROWS))] * len(threads)


def test_more_than_the_budget_is_refused_with_the_numbers(cluster: list[Host]) -> None:
    cluster[0].config(max_bytes=1024)
    try:
        answer = cluster[0]("query", "SELECT * FROM global.python.torch_steps").expect(1)
        assert f"{(HOSTS - 1) * RANKS_PER_HOST * STEPS} rows of python.torch_steps" in answer.stderr
        assert "1.0 KB may be gathered" in answer.stderr and "probing.cluster.max_bytes" in answer.stderr
    finally:
        cluster[0].config(max_bytes="64MB")


# ── what is missing is said ──────────────────────────────────────────────────────────────────


def test_a_host_that_has_gone_costs_its_share_only(pair: list[Host]) -> None:
    sql = "SELECT DISTINCT rank FROM global.python.torch_steps ORDER BY rank"
    assert [row["rank"] for row in pair[0].rows(sql)] == [0, 1, 2, 3]
    harness.stop_process(pair[1].user.daemon())
    answer = pair[0]("query", "-f", "json", sql).expect(6)
    assert [row["rank"] for row in json.loads(answer.stdout)] == [0, 1]
    assert "partial: 1 of 2 hosts answered" in answer.stderr and pair[1].address in answer.stderr
    got = receipt(pair[0], sql)
    assert (got["expected"], got["answered"]) == (2, 1)
    assert got["failed"][0]["node"] == pair[1].address and "ECONNREFUSED" in got["failed"][0]["reason"]
    nodes = pair[0]("cluster", "nodes", "--json").expect(6).json
    assert {node["node"]: node["state"] for node in nodes}[pair[1].address] == "down"


def test_a_host_that_hangs_costs_its_share_and_the_deadline(pair: list[Host]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts and never answers
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        meet(pair, address)
        pair[0].config(timeout=2)
        started = time.monotonic()
        answer = pair[0]("query", "-f", "json", "SELECT DISTINCT rank FROM global.python.torch_steps").expect(
            6
        )
        assert time.monotonic() - started < 20, "it is not waited for"
        assert len(json.loads(answer.stdout)) == 4
        assert "2 of 3 hosts answered" in answer.stderr and f"{address}: " in answer.stderr


def test_a_wrong_token_is_a_reason(public_probing: Cli, pair: list[Host]) -> None:
    stranger = Host(public_probing, 2, token="a-token-of-somebody-else")
    try:
        meet(pair, stranger.address)
        answer = pair[0]("query", "SELECT count(*) FROM global.python.torch_steps").expect(6)
        assert "2 of 3 hosts answered" in answer.stderr
        assert f"{stranger.address}: does not accept our token" in answer.stderr
    finally:
        stranger.user.leave()


@pytest.mark.parametrize("body", [b"", b"{}", b"\x01" * 40, b"\xff" * 400])
def test_a_host_that_sends_nonsense_is_left_out(pair: list[Host], body: bytes) -> None:
    node = json.dumps({"instance": "x", "host": "h", "version": "1", "ranks": 1, "wall_ns": 1}).encode()

    def answer_all(server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                content = node if b"/node " in connection.recv(65536).split(b"\r\n")[0] else body
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\n\r\n".encode()
                connection.sendall(head + content)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer_all, args=(server,), daemon=True)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        meet(pair, address)
        answer = pair[0]("query", "-f", "csv", "SELECT count(*) FROM global.python.torch_steps").expect(6)
        assert answer.stdout.split()[-1] == str(4 * STEPS)
        assert f"{address}: it sent rows that are damaged" in answer.stderr
        server.shutdown(socket.SHUT_RDWR)


def test_beyond_this_machine_they_talk_encrypted_to_whom_they_know(public_probing: Cli) -> None:
    with_package(public_probing)
    started: list[Host] = []
    with other_machine() as machine:
        try:
            started.extend(Host(public_probing, number, place=machine.here) for number in range(2))
            meet(started)
            sql = "SELECT DISTINCT rank FROM global.python.torch_steps ORDER BY rank"
            assert [row["rank"] for row in started[0].rows(sql)] == [0, 1, 2, 3]
            known = started[0].settings / "probing/known_hosts"
            assert f"{started[1].address} sha256:" in known.read_text()
            # Somebody else answers there now.
            known.write_text(f"{started[1].address} sha256:{'0' * 64}\n")
            answer = started[0]("query", "-f", "json", sql).expect(6)
            assert [row["rank"] for row in json.loads(answer.stdout)] == [0, 1]
            assert "another certificate" in answer.stderr
        finally:
            for host in started:
                host.user.leave()


# ── the same as one engine over all rows ─────────────────────────────────────────────────────

NUMBERS = ("step", "duration", "data_wait", "forward")
AGGREGATES = (
    "count(*)", "count({x})", "count(DISTINCT {x})", "round(avg({x}), 9)", "round(stddev({x}), 9)",
    "round(quantile_cont({x}, 0.9), 9)", "min({x})", "max({x})", "round(sum({x}), 6)",
    "round(median({x}) FILTER (WHERE step % 2 = 0), 9)",
)  # fmt: skip


def make_query(chance: random.Random) -> str:
    """Over a table t(rank, step, duration, data_wait, forward); one order of its rows."""
    x, y = chance.sample(NUMBERS, 2)
    where = chance.choice(
        ["", f" WHERE {x} > 0.3", " WHERE rank IN (1, 4, 5)", " WHERE data_wait IS NULL",
         f" WHERE step BETWEEN {chance.randrange(20)} AND {chance.randrange(20, 60)}"]
    )  # fmt: skip
    aggregate = chance.choice(AGGREGATES).format(x=x)
    kind = chance.randrange(6)
    if kind == 0:
        return f"SELECT rank, {aggregate} AS v FROM t{where} GROUP BY rank ORDER BY rank"
    if kind == 1:
        limit = chance.randrange(5, 40)
        having = f"HAVING count(*) > {chance.randrange(3)}"
        return (
            f"SELECT step, {aggregate} AS v FROM t{where} GROUP BY step {having} ORDER BY step LIMIT {limit}"
        )
    if kind == 2:
        window = f"PARTITION BY rank ORDER BY step ROWS {chance.randrange(1, 5)} PRECEDING"
        return f"SELECT rank, step, max({x}) OVER ({window}) AS v FROM t{where} ORDER BY rank, step"
    if kind == 3:
        aggregate = chance.choice(AGGREGATES[:4]).format(x="b." + x)
        return (
            f"SELECT a.rank AS r, b.rank AS q, {aggregate} AS v FROM t a"
            f" JOIN t b ON a.step = b.step AND a.{y} < b.{y} GROUP BY ALL ORDER BY ALL"
        )
    if kind == 4:
        order = f"{y} DESC NULLS LAST, rank, step"
        return f"SELECT rank, step, {x}, {y} FROM t{where} ORDER BY {order} LIMIT {chance.randrange(1, 50)}"
    return f"SELECT {', '.join(a.format(x=x) + f' AS v{i}' for i, a in enumerate(AGGREGATES))} FROM t{where}"


def test_generated_queries_are_as_over_the_union_of_all_rows(cluster: list[Host]) -> None:
    columns = "rank, step, duration, data_wait, forward"
    union = [row for host in cluster for row in host.rows(f"SELECT {columns} FROM python.torch_steps")]
    assert len(union) == ALL_ROWS

    def literal(name: str, value: float | None) -> str:
        kind = "BIGINT" if name in ("rank", "step") else "DOUBLE"
        return f"CAST({'NULL' if value is None else repr(str(value))} AS {kind})"

    values = ", ".join("(" + ", ".join(literal(*each) for each in row.items()) + ")" for row in union)
    chance = random.Random(9)
    for number in range(QUERIES):
        query = make_query(chance)
        everywhere = re.sub(r"\b(FROM|JOIN) t\b", r"\1 global.python.torch_steps", query)
        asked = cluster[number % HOSTS].rows(everywhere)
        expected = cluster[0].rows(f"WITH t({columns}) AS (VALUES {values}) {query}")
        assert asked == expected, query
