"""SQL about live and ended targets, from a user's seat: `probing query`, `tables`, `memory`."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import harness
import pytest
from harness import Cli, Target, rows, wait_until

StartTarget = Callable[..., Target]


# ── asking ───────────────────────────────────────────────────────────────────────────────────


def test_a_table_for_people_is_aligned_and_says_null(probing: Cli) -> None:
    answer = probing("query", "SELECT 1 AS one, NULL AS nothing, 'é😀' AS text").expect(0)
    header, rule, row, count = answer.stdout.splitlines()
    assert header.split("│")[1].strip() == "nothing"
    assert [cell.strip() for cell in row.split("│")] == ["1", "NULL", "é😀"]
    assert set(rule) == {"─", "┼"}
    assert count == "(1 row)"


def test_sql_comes_from_an_argument_a_file_or_stdin(probing: Cli, tmp_path: Path) -> None:
    path = tmp_path / "question.sql"
    path.write_text("SELECT 42 AS answer")
    expected = "answer\n42\n"
    for arguments, text in (
        (["SELECT 42 AS answer"], None),
        (["--file", path], None),
        (["-"], path.read_text()),
    ):
        answer = probing("query", "-f", "csv", *arguments, stdin=text).expect(0)
        assert answer.stdout.replace("\r", "") == expected, arguments


def test_values_survive_every_text_format(probing: Cli) -> None:
    sql = "SELECT 9223372036854775807 AS big, NULL AS none, '' AS empty, 'a,\"b\"\n😀' AS text"
    assert rows(probing, sql) == [{"big": 2**63 - 1, "none": None, "empty": "", "text": 'a,"b"\n😀'}]
    line = probing("query", "-f", "jsonl", sql).expect(0).stdout
    assert json.loads(line)["big"] == 2**63 - 1
    text = probing("query", "-f", "csv", sql).expect(0).stdout
    assert next(csv.DictReader(io.StringIO(text, newline="")))["text"] == 'a,"b"\n😀'


def test_output_files_choose_their_format(probing: Cli, tmp_path: Path) -> None:
    for name, head in (
        ("out.parquet", b"PAR1"),
        ("out.json", b"["),
        ("out.csv", b"x"),
        ("out.arrow", b"\xff\xff\xff\xff"),
    ):
        path = tmp_path / name
        probing("query", "-o", path, "SELECT 7 AS x").expect(0)
        assert path.read_bytes().startswith(head), name


def test_an_error_shows_the_place(probing: Cli) -> None:
    answer = probing("query", "SELECT nope FROM python.stacks").expect(2)
    assert "nope" in answer.stderr
    lines = answer.stderr.splitlines()
    caret = next(i for i, line in enumerate(lines) if line.strip() == "^")
    assert lines[caret - 1][lines[caret].index("^") :].startswith("nope")


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO '/tmp/probing-attack'",
        "ATTACH '/tmp/probing-attack.db'",
        "INSTALL httpfs",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT getenv('HOME')",
        "SET memory_limit = '100GB'",
        "CREATE TABLE t (x INT)",
        "SELECT 1; SELECT 2",
    ],
)
def test_what_is_no_reading_of_tables_is_refused(probing: Cli, sql: str) -> None:
    answer = probing("query", sql)
    assert answer.code in (1, 2, 3) and answer.stderr.startswith("probing: "), answer
    assert not Path("/tmp/probing-attack").exists()


def test_an_endless_query_ends_at_its_limit(probing: Cli) -> None:
    probing("query", "SELECT 1").expect(0)
    probing("config", "probing.query.timeout=0.3").expect(0)
    try:
        answer = probing(
            "query", "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"
        ).expect(5)
        assert "probing.query.timeout" in answer.stderr
        assert rows(probing, "SELECT 1 AS x") == [{"x": 1}]
    finally:
        probing("config", "probing.query.timeout=10").expect(0)


# ── what there is ────────────────────────────────────────────────────────────────────────────


def test_stacks_of_an_unprepared_process_as_rows(probing: Cli, target: StartTarget, python: str) -> None:
    sleeping = target("sleep", python=python)
    stack = rows(probing, "SELECT * FROM python.backtrace ORDER BY depth", sleeping.pid)
    assert stack[-1]["func"] == "<module>" and stack[-1]["file"].endswith("target_sleep.py")
    assert {row["frame_type"] for row in stack} == {"Python"}
    assert {row["pid"] for row in stack} == {sleeping.pid}


def test_system_process_shows_the_process(probing: Cli, target: StartTarget) -> None:
    busy = target("busy")
    [row] = rows(probing, "SELECT pid, ppid, rss, threads FROM system.process", busy.pid)
    assert (row["pid"], row["ppid"]) == (busy.pid, os.getpid())
    assert row["rss"] > 1 << 20


def test_every_declared_table_can_be_asked_for(probing: Cli, target: StartTarget) -> None:
    sleeping = target("sleep")
    probing("-t", sleeping.pid, "inject").expect(0)
    # Later parts of the product make these.
    missing = {"python.modules", "python.tensors"}
    for row in rows(probing, "SELECT table_name FROM probing.tables"):
        name = row["table_name"]
        if name not in missing:
            rows(probing, f"SELECT * FROM {name} LIMIT 5", sleeping.pid)


def test_tables_describes_columns_and_knows_what_is_not_there(probing: Cli) -> None:
    assert "operation_name" in probing("tables", "python.torch_trace").expect(0).stdout
    answer = probing("tables", "python.nonsense").expect(1)
    assert "probing tables" in answer.stderr


def test_series_begin_when_a_target_is_probed(probing: Cli, target: StartTarget) -> None:
    busy = target("busy")
    probing("-t", busy.pid, "inject").expect(0)
    wait_until(lambda: rows(probing, "SELECT 1 FROM memory_usage WHERE rss_mb > 1", busy.pid), 30, "a row")
    assert str(busy.pid) in probing("-t", busy.pid, "memory").expect(0).stdout
    recent = "SELECT count(*) AS n FROM system.cpu WHERE timestamp > now() - interval '5 minutes'"
    assert rows(probing, recent, busy.pid)[0]["n"] >= 1


def test_series_go_on_when_a_target_is_entered_again(probing: Cli, target: StartTarget) -> None:
    busy = target("busy")
    sql = "SELECT 1 FROM system.cpu"
    for _ in range(2):
        probing("-t", busy.pid, "inject").expect(0)
        wait_until(lambda: rows(probing, sql, busy.pid), 30, "a row")
        probing("-t", busy.pid, "eject").expect(0)
    busy.expect_progress()


# ── what the job says about itself ───────────────────────────────────────────────────────────

JOB = """
import sys, time
sys.path.insert(0, {python!r})
import probing

@probing.table
class Seen:
    name: str
    value: float
    count: int

for step in range(100):
    probing.log(epoch=step // 10, step=step, loss=1 / (step + 1))
Seen("é😀", float("nan"), 2**63 - 1).save()
with probing.span("load"):
    pass
print("ready", flush=True)
time.sleep(300)
"""


@pytest.fixture
def job() -> subprocess.Popen:
    code = JOB.format(python=str(harness.ROOT / "python"))
    environment = harness.clean_environment(PROBING_LIBRARY=str(harness.BIN / "libprobing.so"))
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.wait()


def test_what_a_job_logs_is_a_table(probing: Cli, job: subprocess.Popen) -> None:
    best = rows(probing, "SELECT step, loss FROM training_logs ORDER BY loss LIMIT 1", job.pid)
    assert best == [{"step": 99, "loss": 0.01}]
    assert rows(probing, "SELECT count(*) AS n FROM training_logs", job.pid) == [{"n": 100}]
    assert rows(probing, "SELECT name, value, count FROM python.seen", job.pid) == [
        {"name": "é😀", "value": "NaN", "count": 2**63 - 1}
    ]
    assert rows(probing, "SELECT name FROM python.spans", job.pid) == [{"name": "load"}]


def test_a_killed_target_leaves_its_rows_and_how_it_ended(probing: Cli, job: subprocess.Popen) -> None:
    assert rows(probing, "SELECT count(*) AS n FROM training_logs", job.pid) == [{"n": 100}]
    watched = "SELECT 1 FROM system.cpu"
    wait_until(lambda: rows(probing, watched, job.pid), 30, "it is watched")
    job.send_signal(signal.SIGKILL)
    job.wait()
    ended = "SELECT reason, signal FROM crash.events"
    wait_until(lambda: rows(probing, ended, job.pid), 30, "its end is noticed")
    [event] = rows(probing, ended, job.pid)
    assert event["reason"] in ("signal", "unknown"), event  # by kernel: see observe/host/exit_watcher.h
    assert rows(probing, "SELECT count(*) AS n FROM training_logs", job.pid) == [{"n": 100}]
    assert "ended" in probing("list").expect(0).stdout


def test_a_program_asks_about_itself(probing: Cli, job_python: str) -> None:
    """probing.query() in the job, over the daemon's socket."""
    code = (
        f"import sys; sys.path.insert(0, {str(harness.ROOT / 'python')!r})\n"
        "import probing\n"
        "probing.log(step=1, loss=0.5)\n"
        "rows = probing.query('SELECT step, loss FROM training_logs')\n"
        "print(rows.columns, list(rows))\n"
    )
    probing("status").expect(0)
    environment = harness.clean_environment(PROBING_LIBRARY=str(harness.BIN / "libprobing.so"))
    run = subprocess.run(
        [job_python, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert run.stdout == "['step', 'loss'] [(1, 0.5)]\n", run.stderr


@pytest.fixture(params=["3.6", "3.11", "3.13"])
def job_python(request: pytest.FixtureRequest) -> str:
    for version, path in harness.pythons().items():
        if version.startswith(request.param + "."):
            return str(path)
    pytest.skip(f"there is no Python {request.param} on this machine")
