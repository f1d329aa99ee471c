"""Several hosts that ask each other."""

from __future__ import annotations

import json
import random
import re
import socket
import threading
import time
from collections.abc import Iterator

import harness
import pytest
from harness import Answer, Cli, wait_until
from job_hosts import RANKS_PER_HOST, STEPS, FakePeer, Host, hosts, meet, node_says, receipt, with_package
from other_machine import other_machine

HOSTS = 4


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


def test_a_rank_of_another_host_is_a_target(cluster: list[Host]) -> None:
    last = ALL_RANKS[-1]
    sql = "SELECT DISTINCT rank FROM python.torch_steps"
    answer = cluster[0]("-t", f"rank:{last}", "query", "-f", "json", sql).expect(0)
    assert json.loads(answer.stdout) == [{"rank": last}]
    nowhere = cluster[0]("-t", "rank:123456", "query", sql).expect(4)
    assert "there is no rank 123456" in nowhere.stderr


def test_a_command_for_each_rank_of_a_job_reaches_those_of_other_hosts(cluster: list[Host]) -> None:
    answer = cluster[0]("-t", "job:hosts", "config", "probing.sample_rate", "--json").expect(0)
    assert sorted(one["rank"] for one in answer.json) == ALL_RANKS
    nodes = {one["rank"]: one.get("node") for one in answer.json}
    assert nodes == {
        rank: host.address if host is not cluster[0] else None for host in cluster for rank in host.ranks
    }
    text = cluster[0]("-t", "job:hosts", "config", "probing.nested=0").expect(0).stdout
    assert f"(process {cluster[1].address}/" in text, text


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


def test_the_receipt_is_in_the_answer(cluster: list[Host]) -> None:
    got = receipt(cluster[0], "SELECT count(*) FROM global.python.torch_steps")
    assert (got["expected"], got["answered"], got["failed"], got["dropped"]) == (HOSTS, HOSTS, [], 0)


def test_explain_says_who_would_send_how_much(cluster: list[Host]) -> None:
    """They are asked how many rows they have; the rows stay where they are."""
    sql = "EXPLAIN SELECT rank, avg(duration) FROM global.python.torch_steps GROUP BY rank"
    got = receipt(cluster[0], sql)
    rows = STEPS * RANKS_PER_HOST
    assert {share["node"] for share in got["plan"]} == {host.address for host in cluster[1:]}
    assert {(share["table"], share["rows"], share["bytes"]) for share in got["plan"]} == {
        ("python.torch_steps", rows, rows * 18)  # two numbers of nine bytes
    }
    assert got["bytes"] == 0
    shown = cluster[0]("query", sql).expect(0)
    assert "physical_plan" in shown.stdout
    assert f"would get {rows} rows of python.torch_steps, about {rows * 18} bytes, from" in shown.stderr
    # Of the same query without EXPLAIN, that much came, with what says how many.
    came = receipt(cluster[0], sql.removeprefix("EXPLAIN "))["bytes"]
    assert 0 < came - (HOSTS - 1) * rows * 18 < 100 * HOSTS
    texts = "SELECT op FROM global.python.collective_starts"  # as long as they are
    planned = sum(share["bytes"] for share in receipt(cluster[0], "EXPLAIN " + texts)["plan"])
    assert 0 < receipt(cluster[0], texts)["bytes"] - planned < 100 * HOSTS
    joined = receipt(
        cluster[0],
        "EXPLAIN SELECT * FROM global.python.torch_steps JOIN global.python.backtrace USING (rank)",
    )
    assert {(s["table"], s["rows"]) for s in joined["plan"]} == {
        ("python.torch_steps", rows), ("python.backtrace", None)
    }  # fmt: skip
    assert "plan" not in receipt(cluster[0], sql.replace("EXPLAIN", "EXPLAIN ANALYZE"))


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
        assert "probing.store" in answer.stderr
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
    diagnosis = pair[0]("diagnose", "--json").expect(6)
    assert "partial: 1 of 2 hosts answered" in diagnosis.stderr
    assert diagnosis.json["receipt"]["failed"][0]["node"] == pair[1].address
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
    def answer_all(request: str, _: bytes) -> tuple[bytes, dict[str, str]]:
        return (node_says() if "/node" in request else body), {}

    with FakePeer(answer_all) as fake:
        meet(pair, fake.address)
        answer = pair[0]("query", "-f", "csv", "SELECT count(*) FROM global.python.torch_steps").expect(6)
        assert answer.stdout.split()[-1] == str(4 * STEPS)
        assert f"{fake.address}: it sent rows that are damaged" in answer.stderr


def test_many_rows_are_packed_on_the_way(pair: list[Host]) -> None:
    """And are the same at the other end."""
    code = pair[1].code.replace(f"range({STEPS})", "range(5000)")
    pair[1].start_rank(code, 9)
    sql = "SELECT step, duration, forward FROM global.python.torch_steps WHERE rank = 9 ORDER BY step"
    wait_until(lambda: len(pair[0].rows(sql)) == 5000, 20, "all rows")
    assert pair[0].rows(sql) == pair[1].rows(sql.replace("global.", ""))
    script = (
        "import http.client, socket, sys\n"
        "c = http.client.HTTPConnection('localhost'); c.sock = socket.socket(socket.AF_UNIX)\n"
        "c.sock.connect(sys.argv[1]); c.request('POST', '/api/v1/query', sys.argv[2], eval(sys.argv[3]))\n"
        "a = c.getresponse(); print(a.headers['Content-Encoding'], len(a.read()))"
    )
    question = json.dumps({"sql": "SELECT step, duration FROM python.torch_steps", "format": "frame"})
    sizes = {}
    for accepted in ("identity", "probing-lz4"):
        socket_path = str(pair[1].user.folder / "probingd.sock")
        field = repr({"Accept-Encoding": accepted})
        done = pair[1].user.run("/usr/bin/python3", "-c", script, socket_path, question, field)
        encoding, size = done.stdout.split()
        sizes[encoding] = int(size)
    assert set(sizes) == {"None", "probing-lz4"} and sizes["probing-lz4"] < sizes["None"] * 0.8, sizes


def test_packed_rows_that_are_larger_than_may_come_are_refused(pair: list[Host]) -> None:
    """A bomb: few bytes that say they are a gigabyte."""

    def answer_all(request: str, _: bytes) -> tuple[bytes, dict[str, str]]:
        if "/node" in request:
            return node_says(), {}
        return (1 << 30).to_bytes(8, "little") + b"x" * 1000, {"Content-Encoding": "probing-lz4"}

    with FakePeer(answer_all) as fake:
        meet(pair, fake.address)
        answer = pair[0]("query", "-f", "csv", "SELECT count(*) FROM global.python.torch_steps").expect(6)
        assert answer.stdout.split()[-1] == str(4 * STEPS)
        assert f"{fake.address}: its rows are {1 << 30} bytes when unpacked" in answer.stderr


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
            started[1].restart()  # with it goes the connection, which was of one that was known
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


@pytest.mark.parametrize("count", [100, pytest.param(500, marks=[pytest.mark.soak, pytest.mark.slow(900)])])
def test_generated_queries_are_as_over_the_union_of_all_rows(cluster: list[Host], count: int) -> None:
    columns = "rank, step, duration, data_wait, forward"
    union = [row for host in cluster for row in host.rows(f"SELECT {columns} FROM python.torch_steps")]
    assert len(union) == ALL_ROWS

    def literal(name: str, value: float | None) -> str:
        kind = "BIGINT" if name in ("rank", "step") else "DOUBLE"
        return f"CAST({'NULL' if value is None else repr(str(value))} AS {kind})"

    values = ", ".join("(" + ", ".join(literal(*each) for each in row.items()) + ")" for row in union)
    chance = random.Random(9)
    for number in range(count):
        query = make_query(chance)
        everywhere = re.sub(r"\b(FROM|JOIN) t\b", r"\1 global.python.torch_steps", query)
        asked = cluster[number % HOSTS].rows(everywhere)
        expected = cluster[0].rows(f"WITH t({columns}) AS (VALUES {values}) {query}")
        assert asked == expected, query
