"""Tables of the product about itself and about the end of targets, asked for as a user would."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli, Target, rows, wait_until

StartTarget = Callable[..., Target]
PACKAGE = str(harness.ROOT / "python")


# ── python.memory ────────────────────────────────────────────────────────────────────────────

INSIDE = "SELECT * FROM python.memory WHERE blocks IS NOT NULL ORDER BY timestamp"


def test_the_interpreters_memory_is_a_series(probing: Cli, target: StartTarget, python: str) -> None:
    job = target("tables", "nothing", PACKAGE, python=python)
    probing("-t", job.pid, "inject").expect(0)
    probing("-t", job.pid, "config", "probing.python.memory_interval=0.1").expect(0)
    seen = wait_until(
        lambda: (r := rows(probing, INSIDE, job.pid))[2:] and r, 30, "rows come again and again"
    )
    kernel = Path(f"/proc/{job.pid}/statm").read_text().split()
    page = os.sysconf("SC_PAGESIZE")
    last = seen[-1]
    assert abs(last["rss"] - int(kernel[1]) * page) < 8 << 20
    assert 0 < last["heap"] < last["rss"] < last["vms"]
    code = "import sys, gc; print(sys.getallocatedblocks(), len(gc.get_objects()))"
    blocks, objects = map(int, probing("-t", job.pid, "eval", code).expect(0).stdout.split())
    assert 0.5 * blocks < last["blocks"] < 2 * blocks
    assert 0.5 * objects < last["gc_objects"] < 2 * objects
    assert all(last[f"gc_gen{n}"] >= 0 for n in range(3))
    assert last["gpu_allocated"] is None and last["tensor_count"] is None
    job.expect_unharmed()


def test_counting_objects_of_a_large_heap_is_left_out(probing: Cli, target: StartTarget) -> None:
    job = target("sleep")
    probing("-t", job.pid, "inject").expect(0)
    probing("-t", job.pid, "eval", "import sys; sys.kept = [[] for _ in range(300000)]").expect(0)
    probing("-t", job.pid, "config", "probing.python.memory_interval=0.1").expect(0)
    large = "SELECT gc_objects FROM python.memory WHERE blocks > 300000"
    found = wait_until(lambda: rows(probing, large, job.pid), 30, "a row about the large heap")
    assert {row["gc_objects"] for row in found} == {None}


CUDA = """
_initialized = False

def device_count():
    return 2

def memory_allocated(device):
    return 100 + device

def memory_reserved(device):
    return 1000 + device
"""


def test_what_the_framework_says_about_gpus_is_in_it(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    """A stand-in for torch.cuda, which is asked only once the job itself has begun to use it."""
    (tmp_path / "torch/cuda").mkdir(parents=True)
    (tmp_path / "torch/__init__.py").write_text("")
    (tmp_path / "torch/cuda/__init__.py").write_text(CUDA)
    job = target("tables", "nothing", PACKAGE, "import torch.cuda", PYTHONPATH=str(tmp_path))
    probing("-t", job.pid, "inject").expect(0)
    probing("-t", job.pid, "config", "probing.python.memory_interval=0.1").expect(0)
    wait_until(lambda: rows(probing, INSIDE, job.pid), 30, "rows without a GPU")
    assert rows(probing, INSIDE, job.pid)[0]["gpu_allocated"] is None
    probing("-t", job.pid, "eval", "import torch.cuda; torch.cuda._initialized = True").expect(0)
    sql = "SELECT DISTINCT gpu_allocated AS a, gpu_reserved AS r FROM python.memory WHERE gpu_allocated > 0"
    assert wait_until(lambda: rows(probing, sql, job.pid), 30, "rows with one") == [{"a": 201, "r": 2001}]
    job.expect_unharmed()


def test_memory_rows_stop_when_they_are_not_wanted(probing: Cli, target: StartTarget) -> None:
    job = target("sleep")
    probing("-t", job.pid, "inject").expect(0)
    wait_until(lambda: rows(probing, INSIDE, job.pid), 30, "a first row")
    settings = ("probing.python.hooks=gc", "probing.python.memory_interval=0.05")
    hooks = "SELECT calls FROM probing.overhead WHERE part = 'hooks'"
    [looks] = rows(probing, hooks, job.pid)
    probing("-t", job.pid, "config", *settings).expect(0)
    count = "SELECT count(*) AS n FROM python.memory WHERE blocks IS NOT NULL"
    wait_until(lambda: rows(probing, hooks, job.pid) != [looks], 30, "the change has arrived")
    before = rows(probing, count, job.pid)
    outside = "SELECT count(*) AS n FROM python.memory WHERE blocks IS NULL"
    seen = rows(probing, outside, job.pid)[0]["n"]
    wait_until(lambda: rows(probing, outside, job.pid)[0]["n"] > seen, 30, "another row from outside")
    assert rows(probing, count, job.pid) == before


# ── probing.overhead, cluster.nodes ──────────────────────────────────────────────────────────


def overhead(probing: Cli, pid: int) -> dict[str, dict[str, Any]]:
    return {row["part"]: row for row in rows(probing, "SELECT * FROM probing.overhead", pid)}


def test_what_probing_costs_can_be_asked(probing: Cli, target: StartTarget) -> None:
    job = target("values", PACKAGE, PROBING_LIBRARY=str(harness.BIN / "libprobing.so"))
    probing("-t", job.pid, "eval", "sum(range(200000))").expect(0)
    rows(probing, "SELECT count(*) FROM python.imports", job.pid)
    parts = overhead(probing, job.pid)
    expected = {"control", "evaluations", "live", "hooks", "memory", "gc", "rows", "torch", "collectives"}
    assert set(parts) == expected
    assert parts["evaluations"]["calls"] == 1 and parts["evaluations"]["total_ns"] > 200_000
    assert parts["live"]["calls"] == 1
    assert parts["rows"]["calls"] == 5 and parts["rows"]["total_ns"] > 0
    for part in parts.values():
        if part["calls"]:
            assert abs(part["mean_ns"] * part["calls"] - part["total_ns"]) <= part["calls"]
        assert 0 <= part["percent"] < 100
    job.expect_unharmed()


def test_costs_are_told_while_the_gil_is_held(probing: Cli, target: StartTarget) -> None:
    job = target("gil_held")
    probing("-t", job.pid, "inject").expect(0)
    assert overhead(probing, job.pid)["control"]["total_ns"] > 0


def test_this_host_is_a_node(probing: Cli, target: StartTarget) -> None:
    job = target("sleep")
    probing("-t", job.pid, "inject").expect(0)
    [node] = rows(probing, "SELECT *, now() - last_seen < interval '1 minute' AS fresh FROM cluster.nodes")
    assert (node["host"], node["state"], node["fresh"]) == (platform.node(), "up", True)
    assert node["ranks"] >= 1 and node["node"].startswith("unix:/")
    assert node["version"] in probing("version").expect(0).stdout


LOG = f"""
import sys
sys.path.insert(0, {str(PACKAGE)!r})
import probing
probing._native.SECONDS_BETWEEN_LOOKS = 0
probing.event("begins")  # finds the new probe
probing.log(step=7, loss=0.5)  # has to find it, too
"""


def test_a_job_that_logs_goes_on_after_eject_and_inject(probing: Cli, target: StartTarget) -> None:
    """Its functions of the first visit live on, and belong to a table that is gone."""
    job = target("training")
    for _ in range(3):
        probing("-t", job.pid, "inject").expect(0)
        probing("-t", job.pid, "eval", LOG).expect(0)
        assert rows(probing, "SELECT step, loss FROM training_logs", job.pid) == [{"step": 7, "loss": 0.5}]
        probing("-t", job.pid, "eject").expect(0)
    job.expect_progress("steps")


# ── how targets end ──────────────────────────────────────────────────────────────────────────


class Ending:
    """A target that ends when it is told to, and is watched until then."""

    def __init__(self, probing: Cli, target: StartTarget, folder: Path, how: str) -> None:
        self.probing = probing
        self.go = folder / "go"
        self.job = target(
            "ends", PACKAGE, how, PROBING_LIBRARY=str(harness.BIN / "libprobing.so"), GO=str(self.go)
        )
        watched = "SELECT 1 FROM system.cpu"
        wait_until(lambda: rows(probing, watched, self.job.pid), 30, "it is watched")

    def event(self, sql: str = "SELECT * FROM crash.events") -> dict[str, Any]:
        return wait_until(lambda: rows(self.probing, sql, self.job.pid), 30, "its end is noticed")[0]


def test_an_uncaught_exception_is_why_a_target_ended(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    ending = Ending(probing, target, tmp_path, "raise")
    started = "SELECT started FROM system.process"
    [process] = rows(probing, started, ending.job.pid)
    ending.job.will_end(1)
    ending.go.touch()
    ending.job.process.wait(10)
    event = ending.event()
    assert event["last_step"] == 17
    assert "target_ends.py" in event["cmdline"]
    if event["reason"] != "unknown":  # by kernel: see observe/host/exit_watcher.h
        assert (event["reason"], event["exit_code"]) == ("exception", 1)
        assert event["message"] == "Diverged: loss is nan"
    difference = f"epoch(started) - epoch(TIMESTAMPTZ '{process['started']}')"
    close = f"SELECT abs({difference}) < 0.1 AS ok FROM crash.events"
    assert rows(probing, close, ending.job.pid) == [{"ok": True}]


def test_an_exit_code_without_an_exception_is_an_exit(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    ending = Ending(probing, target, tmp_path, "exit")
    ending.job.will_end(7)
    ending.go.touch()
    ending.job.process.wait(10)
    event = ending.event()
    if event["reason"] != "unknown":
        assert (event["reason"], event["exit_code"], event["message"]) == ("exit", 7, None)


def test_a_killed_target_leaves_the_stacks_it_was_last_seen_with(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    ending = Ending(probing, target, tmp_path, "wait")
    # One look at it, at least: those come with the rows of the system's tables.
    wait_until(lambda: len(rows(probing, "SELECT 1 FROM system.cpu", ending.job.pid)) >= 2, 30, "two looks")
    ending.job.process.send_signal(signal.SIGKILL)
    ending.job.process.wait()
    assert ending.event()["last_step"] == 17
    sql = "SELECT func, file, lineno, tid, thread_name, frame_type FROM crash.stacks ORDER BY depth"
    stack = [row for row in rows(probing, sql, ending.job.pid) if row["tid"] == ending.job.pid]
    assert [row["func"].split(".")[-1] for row in stack] == ["wait_in_here", "<module>"]
    assert stack[0]["file"].endswith("target_ends.py") and stack[0]["frame_type"] == "Python"
    line = harness.TARGETS.joinpath("target_ends.py").read_text().splitlines()[stack[1]["lineno"] - 1]
    assert line == "wait_in_here()"
    assert rows(probing, "SELECT count(*) AS n FROM training_logs", ending.job.pid) == [{"n": 18}]


def test_a_target_that_ends_at_once_has_its_row_too(probing: Cli, tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {PACKAGE!r}); import probing, time; print(1, flush=True); input()"
    environment = harness.clean_environment(PROBING_LIBRARY=str(harness.BIN / "libprobing.so"))
    probing("status").expect(0)
    job = subprocess.Popen(
        ["python3", "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert job.stdout is not None and job.stdout.readline() == b"1\n"
    # Listed means that it has said hello; no second has to pass.
    listed = f"SELECT 1 FROM probing.targets WHERE pid = {job.pid} AND state = 'live'"
    wait_until(lambda: rows(probing, listed), 30, "it is known")
    job.kill()
    job.communicate()
    ended = f"SELECT 1 FROM crash.events WHERE pid = {job.pid}"
    wait_until(lambda: rows(probing, ended), 30, "its end is noticed")


# ── the queries of the documents ─────────────────────────────────────────────────────────────


def document_queries() -> list[str]:
    """The SQL of tests/sql/spec.test, which has every query that the documents show."""
    queries = []
    for entry in (harness.ROOT / "tests/sql/spec.test").read_text().split("\n\n"):
        lines = [line for line in entry.splitlines() if not line.startswith("#")]
        if lines:
            end = lines.index("----") if "----" in lines else len(lines)
            queries.append("\n".join(lines[1:end]))
    return queries


@pytest.mark.parametrize("sql", document_queries())
def test_queries_of_the_documents_run_on_a_live_target(probing: Cli, target: StartTarget, sql: str) -> None:
    job = target("values", PACKAGE, PROBING_LIBRARY=str(harness.BIN / "libprobing.so"))
    probing("-t", job.pid, "query", sql).expect(0)
