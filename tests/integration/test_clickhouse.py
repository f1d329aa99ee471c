"""Rows of many hosts in one place: probing.store, and `-t clickhouse://…`. With real servers."""

from __future__ import annotations

import csv
import io
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import harness
import pytest
from clickhouse import Server, servers
from harness import Cli, Target, wait_until
from serving import Served
from test_history import MAKE as MAKE_TICKS
from test_history import PACKAGE, kill_daemon, stop_daemon

StartTarget = Callable[..., Target]
MAKE = MAKE_TICKS.replace(
    "ticks", "beats"
)  # a daemon sees all targets of the machine, those of other tests too
COUNT = "SELECT count() AS rows, uniqExact(n) AS different, min(n) AS lo, max(n) AS hi FROM python.beats"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for the tests that leave it alone; each has a database of its own."""
    (one,) = servers(tmp_path_factory.mktemp("clickhouse"), 1)
    one.start()
    yield one
    one.end(signal.SIGTERM)


class Fleet:
    """A target that writes rows when it is told to, and a daemon that sends them to `store`."""

    def __init__(self, cli: Cli, target: Target, folder: Path, store: str) -> None:
        self.cli, self.target, self.folder, self.store = cli, target, folder, store
        self.written = 0
        self.more: dict[str, str] = {}

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PROBING_STORE": self.store,
            "PROBING_STORE_INTERVAL": "0.2",
            "PROBING_DATA_DIR": str(self.folder),
            **self.more,
        }

    def run(self, *words: object) -> harness.Answer:
        return self.cli(*words, **self.environment)

    def here(self, sql: str, *where: object) -> list[dict]:
        return self.run(*where, "query", "-f", "json", sql).expect(0).json

    def there(self, sql: str, store: str = "") -> list[dict]:
        return self.run("-t", store or self.store, "query", "-f", "json", sql).expect(0).json

    def write(self, rows: int) -> None:
        end = self.written + rows
        code = f"for i in range({self.written}, {end}): Tick(i, 's%d' % (i % 5)).save()"
        self.run("-t", self.target.pid, "eval", code).expect(0)
        self.written = end

    def status(self, table: str = "python.beats") -> dict:
        found = self.here(f"SELECT * FROM probing.store WHERE table_name = '{table}'")
        return found[0] if found else dict.fromkeys(["sent", "waiting", "dropped", "lost"], 0)

    def await_sent(self, rows: int | None = None) -> None:
        wanted = self.written if rows is None else rows
        wait_until(lambda: self.status()["sent"] >= wanted, 60, f"{wanted} rows are sent: {self.status()}")

    def await_all_there(self) -> None:
        def there() -> bool:  # the first time it may be asked for before it is made
            answer = self.run("-t", self.store, "query", "-f", "json", COUNT)
            return answer.code == 0 and answer.json[0]["different"] == self.written

        wait_until(there, 60, f"{self.written} rows are there")

    def expect_all_once(self, store: str = "") -> None:
        (found,) = self.there(COUNT, store)
        wanted = {"rows": self.written, "different": self.written, "lo": 0, "hi": self.written - 1}
        assert found == wanted


@pytest.fixture
def fleet(probing: Cli, target: StartTarget, tmp_path: Path) -> Iterator[Callable[..., Fleet]]:
    stop_daemon()  # the next one has our settings, and the one after our end has none of them

    def make(store: str, scenario: tuple[object, ...] = ("nothing", PACKAGE, MAKE), **more: str) -> Fleet:
        library = str(harness.BIN / "libprobing.so")
        writing = target("tables", *scenario, PROBING_LIBRARY=library)
        one = Fleet(probing, writing, tmp_path / "data", store)
        one.more = more
        one.here("SELECT 1")
        pid = writing.pid
        wait_until(lambda: one.here("SELECT 1 FROM probing.targets", "-t", pid), 10, "the target is known")
        return one

    yield make
    stop_daemon()


def url(server: Server, database: str) -> str:
    return server.url.replace("/fleet", "/" + database)


# ── what arrives ─────────────────────────────────────────────────────────────────────────────


def test_values_arrive_as_they_are(fleet: Callable[..., Fleet], server: Server) -> None:
    one = fleet(url(server, "exact"), ("exact", PACKAGE))
    wait_until(lambda: one.status("python.exact")["sent"] >= 106, 30, "all rows are sent")
    columns = "timestamp_ns, i, d, b, length(s) AS s, length(y) AS y, pid, rank, host"
    local = one.here(
        f"SELECT {columns.replace('length(s)', 'strlen(s)').replace('length(y)', 'octet_length(y)')}"
        " FROM python.exact ORDER BY timestamp_ns, i, s"
    )
    stored = one.there(f"SELECT {columns} FROM python.exact ORDER BY timestamp_ns, i, s")
    for row in stored:
        row["b"] = None if row["b"] is None else bool(row["b"])  # as ClickHouse has them

    def sort(rows: list[dict]) -> list[str]:
        return sorted(str(row) for row in rows)

    assert sort(stored) == sort(local)
    assert {row["i"] for row in stored} >= {2**63 - 1, -(2**63), None}
    texts = one.there("SELECT s FROM python.exact WHERE i = 9223372036854775807")
    assert texts == [{"s": "😀 é \ufffd \n \"'"}]  # our own engine takes no NUL either
    (who,) = one.there("SELECT any(job) AS job, any(probing_ring) AS ring FROM python.exact")
    assert who["job"] == "local" and f"~{one.target.pid}~" in who["ring"]


def test_what_is_read_from_outside_arrives_too(fleet: Callable[..., Fleet], server: Server) -> None:
    one = fleet(url(server, "outside"))
    sql = f"SELECT count() AS n FROM system.cpu WHERE pid = {one.target.pid}"
    wait_until(lambda: one.status("system.cpu")["sent"] > 0, 30, "rows of system.cpu are sent")
    assert one.there(sql)[0]["n"] > 0
    # Over HTTP, for everybody who may read: the one that is set.
    rows = harness.ask_daemon("POST", "query", {"sql": sql, "store": True})["rows"]
    assert rows[0][0] > 0
    # Tables of which nobody has sent a row can be asked for.
    sql = f"SELECT count() AS n FROM global.python.torch_steps WHERE pid = {one.target.pid}"
    assert one.there(sql) == [{"n": 0}]


# ── nothing lost, nothing doubled ────────────────────────────────────────────────────────────


@pytest.mark.parametrize("which", [0, 1], ids=["the one that is asked", "the other one"])
def test_one_of_two_servers_is_killed_and_returns(
    fleet: Callable[..., Fleet], target: StartTarget, tmp_path: Path, which: int
) -> None:
    pair = servers(tmp_path / "clickhouse", 2)
    try:
        for each in pair:
            each.start()
        one = fleet("none")
        one.write(1)  # so that the table of the job's own is known
        ddl = one.run("store", "ddl", "--database", "fleet", "--cluster", "fleet").expect(0).stdout
        for each in pair:  # ON CLUSTER needs ZooKeeper: here everybody is told
            for statement in ddl.replace(" ON CLUSTER `fleet`", "").split(";\n"):
                if statement.strip():
                    each.ask(statement)
        one.run("config", f"probing.store={pair[0].url}").expect(0)

        # The rows of a process are on one server, so it takes several to keep both busy.
        def parts() -> list[int]:
            return [int(each.ask("SELECT count() FROM fleet.python_beats_local")) for each in pair]

        first = one.target
        jobs = [first]
        one.await_sent()
        while not all(parts()):
            assert len(jobs) < 20, parts()
            jobs.append(
                target("tables", "nothing", PACKAGE, MAKE, PROBING_LIBRARY=str(harness.BIN / "libprobing.so"))
            )
            one.target = jobs[-1]
            wait_until(lambda: one.run("-t", one.target.pid, "status").code == 0, 20, "it is probed")
            one.write(10)
            one.await_sent()

        def everybody_writes(rows: int) -> None:
            for one.target in jobs:
                one.write(rows)

        for _ in range(2):
            everybody_writes(150)
            pair[which].end(signal.SIGKILL)
            everybody_writes(150)
            wait_until(lambda: one.status()["problem"], 30, "it is noticed")
            pair[which].start()
            everybody_writes(150)
        one.await_sent()
        assert one.status()["waiting"] == 0
        for each in pair:  # whichever is asked
            one.expect_all_once(each.url)
        # Not because what came twice was merged since: there was nothing to merge.
        assert sum(parts()) == one.written
        (texts,) = one.there(
            "SELECT countIf(s = concat('s', toString(n % 5))) AS good FROM python.beats", pair[0].url
        )
        assert texts["good"] == one.written
    finally:
        for each in pair:
            each.end()


def test_a_server_that_is_stopped_in_the_middle_has_every_row_once(
    fleet: Callable[..., Fleet], tmp_path: Path
) -> None:
    (server,) = servers(tmp_path / "clickhouse", 1)
    try:
        server.start()
        one = fleet(server.url)
        for _ in range(5):
            one.write(100)
            server.end(signal.SIGTERM)
            one.write(100)
            server.start()
        one.await_sent()
        one.expect_all_once()
        assert int(server.ask("SELECT count() FROM fleet.python_beats")) == one.written
    finally:
        server.end()


@pytest.mark.parametrize("with_workers", [False, True], ids=["probingd", "probingd and its workers"])
def test_the_sender_is_killed_and_nothing_is_sent_twice(
    fleet: Callable[..., Fleet], server: Server, with_workers: bool
) -> None:
    one = fleet(url(server, f"killed{int(with_workers)}"))
    for _ in range(3):
        one.write(200)
        kill_daemon(with_workers)
        one.write(100)
    one.await_all_there()
    one.expect_all_once()


def test_a_server_that_comes_later_gets_what_waited(fleet: Callable[..., Fleet], tmp_path: Path) -> None:
    (server,) = servers(tmp_path / "clickhouse", 1)
    one = fleet(server.url)
    one.run("-t", one.target.pid, "config", "probing.table_rows=500").expect(0)
    for _ in range(4):  # more than the ring holds
        one.write(400)
        wait_until(lambda: one.status()["waiting"] == one.written, 20, "they wait on disk")
    assert "127.0.0.1" in one.status()["problem"]
    try:
        server.start()
        one.await_sent()
        one.expect_all_once()
        status = one.status()
        assert (status["waiting"], status["dropped"], status["lost"]) == (0, 0, 0)
        assert status["problem"] is None
        assert not list(one.folder.rglob("*~python.beats.*"))
    finally:
        server.end()


def test_when_the_disk_may_hold_no_more_the_oldest_rows_go_and_are_counted(
    fleet: Callable[..., Fleet], tmp_path: Path
) -> None:
    (server,) = servers(tmp_path / "clickhouse", 1)
    one = fleet(server.url, PROBING_STORE_SPOOL="64KB", PROBING_SYSTEM_INTERVAL="0")
    while one.status()["dropped"] == 0:
        one.write(200)
        assert one.written < 20_000
    size = sum(path.stat().st_size for path in one.folder.rglob("*~*.*"))
    assert size <= 65536, size
    log = (harness.socket_directories(0)[0] / "probingd.log").read_text()
    assert log.count("no room for rows of python.beats") == 1
    try:
        server.start()
        one.write(10)
        # Every row is sent or counted: some may still be on their way from the job's memory.
        wait_until(
            lambda: (status := one.status())["sent"] + status["dropped"] == one.written,
            30,
            f"{one.written} rows are sent or counted: {one.status()}",
        )
        (found,) = one.there(COUNT)
        assert found["rows"] == found["different"] == one.status()["sent"] > 0
        assert found["hi"] == one.written - 1  # the newest are there
    finally:
        server.end()


# ── asking ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def steps(server: Server) -> str:
    """A store with rows as the DDL of this build makes it."""
    store = url(server, "steps")
    cli = Cli(harness.BIN)
    ddl = cli("store", "ddl", "--database", "steps").expect(0).stdout
    for statement in ddl.split(";\n"):
        if statement.strip():
            server.ask(statement)
    server.ask(
        "INSERT INTO steps.python_torch_steps (timestamp, timestamp_ns, step, duration, data_wait, pid, rank,"
        " host, job, probing_ring, probing_lane, probing_row, probing_batch)"
        " SELECT now() - intDiv(number, 4), toUInt32(now()) * 1000000000, intDiv(number, 4),"
        " if(number % 4 = 3, 0.9, 0.5), 0.01, 100 + number % 4, number % 4, 'node', 'job',"
        " toString(number % 4), 0, intDiv(number, 4), 1 FROM numbers(40)"
    )
    return store


@pytest.mark.parametrize("form", ["json", "jsonl", "csv", "table", "markdown", "arrow", "parquet"])
def test_every_format_is_there(probing: Cli, steps: str, form: str, tmp_path: Path) -> None:
    sql = (
        "SELECT rank, count() AS n, max(duration) AS d, 'a,b' AS s FROM python.torch_steps"
        " GROUP BY rank ORDER BY rank"
    )
    answer = probing("-t", steps, "query", "-f", form, "-o", tmp_path / "out", sql).expect(0)
    assert answer.stderr.strip().endswith("out") or not answer.stderr
    data = (tmp_path / "out").read_bytes()
    if form == "json":
        assert json.loads(data)[3] == {"rank": 3, "n": 10, "d": 0.9, "s": "a,b"}
    elif form == "csv":
        assert list(csv.reader(io.StringIO(data.decode())))[1] == ["0", "10", "0.5", "a,b"]
    elif form == "table":
        assert "rank" in data.decode() and len(data.decode().splitlines()) >= 6
    elif form == "parquet":
        assert data.startswith(b"PAR1")
    else:
        assert b"rank" in data


def test_our_names_and_its_own_can_be_used_together(probing: Cli, steps: str) -> None:
    sql = (
        "SELECT count() AS n FROM global.python.torch_steps WHERE host <> 'python.torch_steps'"
        " AND timestamp > now() - 3600 AND 'python_torch_steps' IN (SELECT name FROM system.tables)"
    )
    answer = probing("-t", steps, "query", "-f", "json", sql).expect(0)
    assert answer.json == [{"n": 40}]
    listed = probing("-t", steps, "tables", "--json").expect(0).json
    assert {"table_name": "python.torch_steps", "engine": "ReplacingMergeTree"} in listed
    columns = probing("-t", steps, "tables", "python.torch_steps", "--json").expect(0).json
    assert {"column_name": "timestamp_ns", "type": "Int64"} in columns
    probing("-t", steps, "tables", "python.nothing").expect(1)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("DROP TABLE python.torch_steps", "readonly"),
        ("INSERT INTO python.torch_steps (step) VALUES (1)", "readonly"),
        ("SELECT * FROM python.nothing", "python"),
        ("SELECT nothing FROM python.torch_steps", "nothing"),
        ("SELEC 1", "Syntax error"),
        ("SELECT 1 FORMAT CSV", "leave FORMAT out"),
        ("SELECT number FROM system.numbers LIMIT 5000000", "limit"),
    ],
)
def test_what_cannot_be_asked_is_a_clear_error(probing: Cli, steps: str, sql: str, message: str) -> None:
    answer = probing("-t", steps, "query", sql).expect(1)
    assert message.lower() in answer.stderr.lower()
    assert "e.what()" not in answer.stderr


def test_a_question_that_takes_too_long_is_ended(probing: Cli, steps: str) -> None:
    probing("config", "probing.query.timeout=1").expect(0)
    try:
        sql = "SELECT count() FROM system.numbers WHERE sipHash64(number) = 1"
        answer = probing("-t", steps, "query", sql)
        assert answer.code == 5 and answer.seconds < 20, answer
    finally:
        probing("config", "probing.query.timeout=10").expect(0)


def test_who_asks_and_where_is_said_in_the_url(probing: Cli, server: Server, steps: str) -> None:
    named = steps.replace("://", "://writer:secret%20word@")
    who = probing("-t", named, "query", "-f", "csv", "SELECT user FROM system.processes").expect(0)
    assert "writer" in who.stdout
    wrong = probing("-t", steps.replace("://", "://writer:guess@"), "query", "SELECT 1").expect(3)
    assert "guess" not in wrong.stderr and "USER:PASSWORD@" in wrong.stderr
    nobody = probing("-t", "clickhouse://127.0.0.1:1/steps", "query", "SELECT 1").expect(4)
    assert "127.0.0.1:1" in nobody.stderr
    missing = probing("-t", url(server, "nowhere"), "query", "SELECT 1").expect(1)
    assert "nowhere" in missing.stderr and "probing store ddl" in missing.stderr
    for text in ("clickhouse://", "clickhouse://host", "postgres://host/db"):
        probing("-t", text, "query", "SELECT 1").expect(2)
    probing("-t", steps, "backtrace").expect(2)


def test_who_comes_through_the_network_names_no_store(served: Served) -> None:
    """It would be this machine that goes there."""
    for path, body in (
        ("/api/v1/query", {"sql": "SELECT 1", "store": "clickhouse://127.0.0.1:1/x"}),
        ("/api/v1/diagnose?store=clickhouse://127.0.0.1:1/x", None),
    ):
        status, content, _ = served.http("POST" if body else "GET", path, body)
        assert status == 403 and b"unix socket only" in content, content
    status, content, _ = served.http("POST", "/api/v1/query", {"sql": "SELECT 1", "store": True})
    assert status == 400 and b"has no store" in content, content


def test_a_wrong_password_is_a_problem_that_can_be_seen_and_is_not_shown(
    fleet: Callable[..., Fleet], server: Server
) -> None:
    one = fleet(url(server, "denied").replace("://", "://writer:guess@"))
    one.write(10)
    wait_until(lambda: one.status()["waiting"] == 10, 20, "the rows wait")
    wait_until(lambda: one.status()["problem"], 20, "the problem is seen")
    shown = (
        one.run("config").expect(0).stdout + str(one.here("SELECT * FROM probing.config")) + str(one.status())
    )
    assert "guess" not in shown and "writer:***@" in shown
    right = url(server, "denied").replace("://", "://writer:secret%20word@")
    one.run("config", f"probing.store={right}").expect(0)
    one.await_sent()
    one.expect_all_once(url(server, "denied"))


def test_diagnose_asks_the_rules_that_its_sql_can_say_and_names_the_others(probing: Cli, steps: str) -> None:
    answer = probing("-t", steps, "diagnose", "--json", "--patience", "100").expect(0).json
    (finding,) = [each for each in answer["findings"] if each["class"] == "straggler"]
    assert finding["ranks"] == [3] and finding["pids"] == [103]
    assert "rank 3 on node needs 900 ms" in finding["evidence"]
    (problem,) = answer["problems"]
    left_out = problem.partition(": ")[2].split(", ")
    assert "collective_hang" in left_out and "hang_gil" in left_out and "straggler" not in left_out


OWN = "pid, rank, host, job, probing_ring, probing_lane, probing_row, probing_batch"
# What the rules must find, and rows in which it is.
STORED_TROUBLES = {
    "device_memory_growth": (
        f"INSERT INTO troubles.system_gpu (timestamp, timestamp_ns, device, process_memory, memory_total,"
        f" memory_used, {OWN}) SELECT now() - 50 + number, (toUInt32(now()) - 50 + number) * 1000000000, 0,"
        " 1000000000 + number * 10000000, 80000000000, 10000000000, 5, 2, 'node', 'job', 'r', 0, number, 1"
        " FROM numbers(50)",
        [2],
        "memory on GPU 0 of node grows by 9.54 MB/s",
    ),
    "first_death": (
        f"INSERT INTO troubles.crash_events (timestamp, timestamp_ns, reason, exit_code, signal,"
        f" message, {OWN})"
        " VALUES (now(), 2000000000, 'signal', NULL, 'SIGTERM', NULL, 7, 0, 'node0', 'job', 'a', 0, 0, 1),"
        " (now(), 1000000000, 'exception', 1, NULL, 'ValueError: x', 8, 3, 'node1', 'job', 'b', 0, 0, 1),"
        " (now(), 500000000, 'exit', 0, NULL, NULL, 9, 4, 'node1', 'job', 'c', 0, 0, 1)",
        [3],
        "rank 3 of job on node1 ended first: exit code 1, ValueError: x; 1 more within 1 s",
    ),
    "collective_mismatch": (
        f"INSERT INTO troubles.python_collective_starts (timestamp, timestamp_ns, process_group, seq, op,"
        f" bytes, {OWN}) SELECT now(), number, '0', intDiv(number, 4),"
        " if(number = 21, 'all_gather', 'all_reduce'), 64, 100 + number % 4,"
        " number % 4, 'node', 'job', toString(number % 4), 0, number, 1 FROM numbers(40)",
        [0, 1, 2, 3],
        "operation #5 of group 0 of job: rank 0 calls all_reduce of 64 bytes, rank 1 calls all_gather",
    ),
}


def test_what_a_store_can_say_of_gpus_deaths_and_collectives(probing: Cli, server: Server) -> None:
    for statement in probing("store", "ddl", "--database", "troubles").expect(0).stdout.split(";\n"):
        if statement.strip():
            server.ask(statement)
    for insert, _, _ in STORED_TROUBLES.values():
        server.ask(insert)
    answer = probing("-t", url(server, "troubles"), "diagnose", "--json").expect(0).json
    found = {each["class"]: each for each in answer["findings"]}
    assert set(found) == set(STORED_TROUBLES)
    for name, (_, ranks, evidence) in STORED_TROUBLES.items():
        assert found[name]["ranks"] == ranks and found[name]["evidence"].startswith(evidence), found[name]
