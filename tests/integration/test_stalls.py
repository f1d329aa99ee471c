"""What took too long is known afterwards, with the line that did it: nobody was attached."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli, Target, wait_until
from ranks import Job

StartTarget = Callable[..., Target]
PACKAGE = harness.ROOT / "python"
SQL = (
    "SELECT epoch(timestamp) AS at, kind, duration, func, lineno, why, cpu_wait, waiting_threads, stack,"
    " before, stacks, thread_name FROM python.stalls ORDER BY timestamp"
)


def rows_of(probing: Cli, pid: int, sql: str = SQL) -> list[dict[str, Any]]:
    return probing("-t", pid, "query", "-f", "json", sql).expect(0).json


def start(
    probing: Cli, target: StartTarget, kind: str, stalls: int, truth: Path, python: str, *lengths: float
) -> Target:
    environment = {"PYTHONPATH": str(PACKAGE), "PROBING_LIBRARY": str(harness.BIN / "libprobing.so")}
    probing("config", "probing.stalls.limit=0.05").expect(0)
    started = target("stalls", kind, stalls, truth, *lengths, python=python, **environment)
    probing("-t", started.pid, "inject").expect(0)
    return started


def truth_of(path: Path, timeout: float = 60) -> list[dict[str, Any]]:
    wait_until(path.exists, timeout=timeout, what="the target has stalled as often as it should")
    return json.loads(path.read_text())


def found(stall: dict[str, Any], rows: list[dict[str, Any]], kinds: tuple[str, ...]) -> bool:
    """Whether a row has its time and its line."""
    end = stall["at"] + stall["seconds"]
    return any(
        row["kind"] in kinds
        and row["at"] < end
        and row["at"] + row["duration"] > stall["at"]
        and f"{stall['func']} (target_stalls.py:{stall['line']})" in (row["stack"] or "")
        for row in rows
    )


def missed(stalls: list[dict[str, Any]], rows: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [stall for stall in stalls if stall["seconds"] >= 0.05 and not found(stall, rows, kinds)]


KINDS = {
    "loop": ("event_loop", "cpu_wait"),
    "uvloop": ("event_loop", "cpu_wait"),
    "aiohttp": ("event_loop", "cpu_wait"),
    "gil": ("gil", "cpu_wait"),
    "spans": ("span",),
    "steps": ("step",),
    "torch": ("step",),
}


def python_of(kind: str, version: str | None = None) -> str:
    if kind == "uvloop":
        return sys.executable
    if kind == "torch":
        return str(harness.ROOT / "build/torch-venv/bin/python")
    if kind == "aiohttp":
        return str(harness.ROOT / "build/frameworks-venv/bin/python")
    return version or harness.python_ids()[-1]


@pytest.mark.load_dependent("an overloaded machine looks too late")
@pytest.mark.parametrize("kind", ["loop", "uvloop", "gil", "spans", "steps"])
def test_stalls_are_known_by_their_line(probing: Cli, target: StartTarget, tmp_path: Path, kind: str) -> None:
    truth = tmp_path / "truth.json"
    lengths = (0.4, 0.6) if kind in ("gil", "steps") else (0.05, 0.2)  # a busy machine has slow steps
    stalling = start(probing, target, kind, 8, truth, python_of(kind), *lengths)
    stalls = truth_of(truth)
    wait_until(lambda: len(rows_of(probing, stalling.pid)) >= len(stalls) - 1)
    rows = rows_of(probing, stalling.pid)
    assert len(missed(stalls, rows, *KINDS[kind])) <= 1, (stalls, rows)
    assert all(row["why"] for row in rows)
    assert all(row["before"] for row in rows if row["kind"] == "event_loop"), rows


@pytest.mark.parametrize("version", harness.python_ids())
def test_a_loop_that_does_not_turn_is_seen_in_every_python(
    probing: Cli, target: StartTarget, tmp_path: Path, version: str
) -> None:
    truth = tmp_path / "truth.json"
    stalling = start(probing, target, "loop", 1, truth, version, 0.4, 0.5)
    stalls = truth_of(truth)
    (row,) = wait_until(lambda: rows_of(probing, stalling.pid))
    assert not missed(stalls, [row], "event_loop", "cpu_wait"), (stalls, row)
    assert row["duration"] == pytest.approx(stalls[0]["seconds"], abs=0.1)
    parts = json.loads(row["stacks"])
    assert parts[0]["at"] < 0 < parts[-1]["at"] + parts[-1]["seconds"]


@pytest.mark.load_dependent("the machine may be what stalls")
@pytest.mark.parametrize("kind", ["loop", "spans"])
def test_healthy_programs_have_no_stalls(
    probing: Cli, target: StartTarget, tmp_path: Path, kind: str
) -> None:
    healthy = start(probing, target, kind, 0, tmp_path / "truth.json", python_of(kind))
    time.sleep(4)  # nothing to wait for: nothing happens
    rows = rows_of(probing, healthy.pid)
    assert [row for row in rows if row["cpu_wait"] < row["duration"] / 2] == []


def test_what_others_notice_is_kept_with_the_stacks_of_that_moment(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    sleeping = start(probing, target, "loop", 0, tmp_path / "truth.json", python_of("loop"))
    time.sleep(0.5)  # of the moment before
    harness.ask_daemon(
        "POST", "events", {"target": sleeping.pid, "name": "a client timed out", "record": 0.3}
    )
    (row,) = rows_of(probing, sleeping.pid, f"SELECT * FROM ({SQL}) WHERE kind = 'event'")
    assert row["why"].startswith("a client timed out")
    assert "target_stalls.py" in row["stack"] and row["before"]
    bursts = harness.ask_daemon("GET", f"samples?target={sleeping.pid}")["bursts"]
    assert [burst["reason"] for burst in bursts] == ["a client timed out"]


def test_a_job_that_is_entered_again_is_watched_on(probing: Cli, target: StartTarget, tmp_path: Path) -> None:
    """Its rows were written into the memory of the visit before, which probingd did not survive."""
    job = start(probing, target, "loop", 0, tmp_path / "truth.json", python_of("loop"))
    sql = f"SELECT * FROM ({SQL}) WHERE kind = 'event'"
    for visit in range(3):
        event = {"target": job.pid, "name": f"visit {visit}"}
        wait_until(lambda event=event: "error" not in harness.ask_daemon("POST", "events", event))
        assert any(row["why"].startswith(f"visit {visit}") for row in rows_of(probing, job.pid, sql))
        probing("-t", job.pid, "eject").expect(0)
        probing("-t", job.pid, "inject").expect(0)


def test_events_and_metrics_of_the_program_are_kept(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    job = start(probing, target, "steps", 0, tmp_path / "truth.json", python_of("steps"))
    harness.ask_daemon("POST", "config", {"set": {"probing.stalls.metrics": "loss>10"}})
    probing("-t", job.pid, "query", "SELECT 1").expect(0)
    code = "import probing; probing.event('odd', capture=True); probing.log(loss=3); probing.log(loss=11)"
    probing("-t", job.pid, "eval", code).expect(0)
    sql = f"SELECT * FROM ({SQL}) WHERE kind IN ('event', 'metric') ORDER BY kind"
    event, metric = wait_until(lambda: len(found := rows_of(probing, job.pid, sql)) == 2 and found)
    assert event["why"].startswith("odd")
    assert metric["why"].startswith("loss is 11, its bound loss>10")
    harness.ask_daemon("POST", "config", {"set": {"probing.stalls.metrics": "none"}})


def test_the_rank_that_comes_last_to_a_collective_has_a_row_with_its_line(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    probing("config", "probing.stalls.limit=0.03").expect(0)
    job = Job(target, tmp_path, 3, "straggler", 1)  # by 50 ms a step
    late = job.ranks[1].pid
    sql = f"SELECT * FROM ({SQL}) WHERE kind = 'collective'"
    found = wait_until(
        lambda: [row for row in rows_of(probing, late, sql) if "compute (target_rank.py" in row["stack"]]
    )
    assert found[0]["why"].startswith("rank 1 came to all_reduce "), found
    assert 0.03 < found[0]["duration"] < 1 and "after the first of 3 ranks" in found[0]["why"]
    probing("config", "probing.stalls.limit=0.05").expect(0)


def test_a_line_of_the_log_keeps_what_came_before_it(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    job = start(probing, target, "loop", 0, tmp_path / "truth.json", python_of("loop"))
    wrapped = "import logging; hasattr(logging.Logger.callHandlers, '__wrapped__')"
    assert probing("-t", job.pid, "eval", wrapped).expect(0).stdout == "False\n"
    probing("-t", job.pid, "config", "probing.stalls.log=timed? out|loss is nan").expect(0)
    wait_until(lambda: probing("-t", job.pid, "eval", wrapped).stdout == "True\n", 20, "the log is watched")
    code = (
        "log = logging.getLogger('train'); log.error('all is well'); log.warning('%s timed out', 'batch 3')"
    )
    probing("-t", job.pid, "eval", "import logging; " + code).expect(0)
    sql = f"SELECT * FROM ({SQL}) WHERE kind = 'log'"
    (row,) = wait_until(lambda: rows_of(probing, job.pid, sql))
    assert row["why"].startswith("WARNING of train: batch 3 timed out")
    probing("-t", job.pid, "config", "probing.stalls.log=(").expect(0)
    wait_until(lambda: "no regular expression" in rows_of(probing, job.pid, sql)[-1]["why"])
    assert probing("-t", job.pid, "eval", wrapped).expect(0).stdout == "False\n"
    assert probing("-t", job.pid, "config", "probing.stalls.log=" + "x" * 501).code == 2


def test_a_probe_that_leaves_takes_its_part_of_the_log_along(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    job = start(probing, target, "loop", 0, tmp_path / "truth.json", python_of("loop"))
    wrapped = "import logging; hasattr(logging.Logger.callHandlers, '__wrapped__')"
    probing("-t", job.pid, "config", "probing.stalls.log=timed out").expect(0)
    wait_until(lambda: probing("-t", job.pid, "eval", wrapped).stdout == "True\n", 20, "the log is watched")
    probing("-t", job.pid, "eject").expect(0)
    probing("-t", job.pid, "inject").expect(0)
    assert probing("-t", job.pid, "eval", wrapped).expect(0).stdout == "False\n"
