"""Tracing of PyTorch, on a stand-in of it that every machine has; test_torch.py has the real one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import harness
import pytest
from harness import Cli, Target, wait_until

StartTarget = Callable[..., Target]
SETTING = "probing.torch.profiling"
PACKAGE = str(harness.ROOT / "python")


def ask(probing: Cli, job: Target, sql: str) -> list[dict[str, Any]]:
    return json.loads(probing("-t", job.pid, "query", "-f", "json", sql).expect(0).stdout)


def start(target: StartTarget, scenario: str, spec: str, *more: object, **options: Any) -> Target:
    """A job that was started with the probe."""
    library = str(harness.BIN / "libprobing.so")
    return target(
        "torch_standin", scenario, *more, LD_PRELOAD=library, PROBING_TORCH_PROFILING=spec, **options
    )


def steps_of(probing: Cli, job: Target, least: int = 3) -> list[dict[str, Any]]:
    sql = "SELECT * FROM python.torch_steps ORDER BY step"
    return wait_until(
        lambda: len(rows := ask(probing, job, sql)) >= least and rows, 20, f"{least} steps are recorded"
    )


def calls_of(probing: Cli, job: Target, least: int = 1) -> list[list[dict[str, Any]]]:
    """The rows of steps that were traced in full, in their order. Not those of the oldest, which may
    have been overwritten in part, nor those of the last, which may still be written."""
    sql = "SELECT * FROM python.torch_trace ORDER BY step, seq"

    def enough() -> list[list[dict[str, Any]]] | None:
        found: dict[int, list[dict[str, Any]]] = {}
        for row in ask(probing, job, sql):
            found.setdefault(row["step"], []).append(row)
        return list(found.values())[1:-1] if len(found) >= least + 2 else None

    return wait_until(enough, 20, f"{least} steps are traced")


def inside(probing: Cli, job: Target, expression: str) -> str:
    return probing("-t", job.pid, "eval", f"import torch, sys; print({expression})").expect(0).stdout.strip()


HOOKED = (
    "len(torch.optim.optimizer._global_optimizer_pre_hooks),"
    " len(torch.optim.optimizer._global_optimizer_post_hooks),"
    " not hasattr(torch.autograd.backward, '__code__')"
)


# ── steps and modules ────────────────────────────────────────────────────────────────────────


def test_every_call_of_a_module_is_a_row(probing: Cli, target: StartTarget, python: str) -> None:
    if not harness.has_gil(python):
        pytest.skip("not traced: nothing would tell when the last call has left our code")
    job = start(target, "train", "full", python=python)
    if harness.version_of(python)[:2] < (3, 8):  # no way in that leaves no trace
        job.expect_progress("steps")
        assert ask(probing, job, "SELECT * FROM python.torch_trace") == []
        return
    rows = calls_of(probing, job)[0]
    assert [(row["module"], row["stage"]) for row in rows] == [
        ("Sequential", "forward"),
        ("first", "forward"),
        ("middle", "forward"),
        ("middle.inner", "forward"),
        ("last", "forward"),
        ("SGD", "step"),
        ("Sequential", "backward"),
        ("last", "backward"),
        ("middle", "backward"),
        ("middle.inner", "backward"),
        ("first", "backward"),
    ]
    assert [row["seq"] for row in rows] == list(range(11))
    assert {row["device"] for row in rows} == {"cpu"}
    assert rows[1]["operation_name"] == "first.forward"
    assert rows[3]["module_type"] == "Linear"
    assert rows[0]["duration"] >= sum(row["duration"] for row in rows[1:3])
    assert rows[0]["duration_ms"] == pytest.approx(rows[0]["duration"] * 1000)
    job.expect_progress("steps")


def test_every_step_is_timed_and_only_some_are_traced(probing: Cli, target: StartTarget) -> None:
    job = start(target, "train", "on,rate=0.1")
    steps = steps_of(probing, job, 40)
    numbers = [row["step"] for row in steps]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    for row in steps:
        parts = row["forward"] + row["backward"] + row["optimizer"]
        assert 0 < parts < row["duration"]
        assert row["data_wait"] is None
    calls_of(probing, job)
    sql = (
        "SELECT count(DISTINCT s.step) AS steps, count(DISTINCT t.step) AS traced"
        " FROM python.torch_steps s LEFT JOIN python.torch_trace t USING (step)"
    )
    [counts] = ask(probing, job, sql)
    assert 3 <= counts["traced"] < counts["steps"] / 4
    [own] = ask(probing, job, "SELECT * FROM probing.overhead WHERE part = 'torch'")
    assert own["calls"] >= counts["steps"] and own["mean_ns"] > 0
    job.expect_unharmed()


def test_without_an_optimizer_a_call_of_the_model_is_a_step(probing: Cli, target: StartTarget) -> None:
    job = start(target, "infer", "full")
    steps_of(probing, job, 5)
    for rows in calls_of(probing, job, 3):
        stages = [(row["module"], row["stage"]) for row in rows]
        assert stages[0] == ("Sequential", "forward")
        assert len(stages) == 5


def test_the_job_may_say_what_a_step_is(probing: Cli, target: StartTarget) -> None:
    job = start(target, "steps", "full", PACKAGE)
    steps = steps_of(probing, job, 5)
    assert all(row["step"] >= 1000 for row in steps[1:])


def test_only_modules_that_were_asked_for(probing: Cli, target: StartTarget) -> None:
    job = start(target, "train", "full,modules=middle*,last,backward=off")
    rows = calls_of(probing, job)[0]
    assert [row["module"] for row in rows] == ["middle", "middle.inner", "last", "SGD"]


# ── on and off ───────────────────────────────────────────────────────────────────────────────


def test_it_is_switched_on_and_off_in_a_job_that_runs(probing: Cli, target: StartTarget) -> None:
    job = target("torch_standin", "train")
    probing("-t", job.pid, "inject").expect(0)
    before = inside(probing, job, HOOKED)
    assert before == "0 0 False"
    for _ in range(3):
        probing("-t", job.pid, "config", f"{SETTING}=full").expect(0)
        calls_of(probing, job)
        assert inside(probing, job, HOOKED) == "1 1 True"
        probing("-t", job.pid, "config", f"{SETTING}=off").expect(0)
        wait_until(lambda: inside(probing, job, HOOKED) == before, 10, "torch is as it was")
    count = "SELECT count(*) AS n FROM python.torch_steps"
    written = ask(probing, job, count)
    job.expect_progress("steps")
    assert ask(probing, job, count) == written
    probing("-t", job.pid, "config", f"{SETTING}=full").expect(0)
    wait_until(lambda: inside(probing, job, HOOKED) == "1 1 True", 10, "it is on again")
    answer = probing("-t", job.pid, "eject").expect(0)
    assert "stays" not in answer.stdout + answer.stderr
    wait_until(lambda: not harness.is_probed(job.pid), 10, "nothing of the probe is left")
    job.expect_progress("steps")


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        ("on,rat=0.1", 'there is no option "rat"', "did you mean rate?"),
        ("on,rate=7", 'rate cannot be "7"', "share of the steps"),
        ("on,exprs=loss", 'exprs cannot be "loss"', "loss@train"),
        ("yes please", 'cannot begin with "yes please"', "it takes off, or on"),
    ],
)
def test_a_wrong_text_is_explained(
    probing: Cli, target: StartTarget, spec: str, message: str, hint: str
) -> None:
    job = start(target, "train", "off")
    answer = probing("-t", job.pid, "config", f"{SETTING}={spec}").expect(2)
    assert message in answer.stderr
    assert hint in answer.stderr
    assert probing("-t", job.pid, "config", SETTING).expect(0).stdout.strip() == "off"
    job.expect_progress("steps")


def test_a_wrong_text_in_the_environment_is_explained_in_the_events(
    probing: Cli, target: StartTarget
) -> None:
    job = start(target, "train", "on,rat=0.1")
    sql = "SELECT attributes FROM python.spans WHERE name = 'probing.config'"
    [row] = wait_until(lambda: ask(probing, job, sql), 10, "the event")
    assert "PROBING_TORCH_PROFILING" in row["attributes"]
    assert "did you mean rate?" in row["attributes"]
    job.expect_progress("steps")


def test_the_rate_goes_down_when_it_costs_too_much(probing: Cli, target: StartTarget) -> None:
    job = start(target, "train", "full", PROBING_TORCH_MAX_OVERHEAD="0.01%")
    sql = "SELECT attributes FROM python.spans WHERE name = 'probing.torch'"
    [said, *_] = wait_until(lambda: ask(probing, job, sql), 20, "the tracer says that it does less")
    assert "probing.torch.max_overhead: rate=0.0" in said["attributes"]
    job.expect_progress("steps")


# ── variables ────────────────────────────────────────────────────────────────────────────────


def test_variables_are_recorded_at_every_step(probing: Cli, target: StartTarget) -> None:
    names = ["loss", "epoch", "meter.value", "meter.broken", "huge", "endless", "output", "not_there"]
    job = start(target, "train", "steps,exprs=" + ",".join(f"{name}@train_step" for name in names))
    wait_until(
        lambda: ask(probing, job, "SELECT count(*) AS n FROM python.variables")[0]["n"] > 20, 20, "variables"
    )
    rows = ask(probing, job, "SELECT * FROM python.variables ORDER BY step LIMIT 6")
    seen = {row["name"]: row for row in rows}
    assert set(seen) == set(names) - {"meter.broken", "not_there"}
    assert seen["meter.value"]["number"] == 0.25
    assert 0 < seen["loss"]["number"] <= 1
    assert seen["huge"]["value"] == "list of 100000"
    assert seen["endless"]["value"] == "list of 1"
    assert seen["output"]["value"] == "Tensor"
    assert {row["func"] for row in rows} == {"train_step"}
    said = ask(probing, job, "SELECT attributes FROM python.spans WHERE name = 'probing.torch'")
    assert ["raises ValueError" in row["attributes"] for row in said] == [True]
    logs = ask(probing, job, "SELECT * FROM training_logs WHERE source = 'exprs' ORDER BY step LIMIT 1")
    assert logs[0]["loss"] == seen["loss"]["number"]
    assert logs[0]["epoch"] is not None
    job.expect_progress("steps")


WITH_MONITORING = harness.wanted_pythons(lambda one: harness.version_of(one) >= (3, 12) and "t" not in one)
WATCHED = harness.TARGETS / "target_torch_standin.py"


def line_with(text: str) -> int:
    return 1 + next(i for i, line in enumerate(WATCHED.read_text().splitlines()) if text in line)


@pytest.mark.load_dependent("other programs make steps longer, and more of longer steps have values")
def test_values_take_a_share_of_the_time_and_no_more(probing: Cli, target: StartTarget) -> None:
    """Of steps of a millisecond or two not each has some."""
    job = start(target, "train", "steps,exprs=loss@train_step")
    sql = "SELECT count(DISTINCT step) AS noted, max(step) - min(step) AS made FROM python.variables"

    def of_many() -> dict[str, Any] | None:
        [row] = ask(probing, job, sql)
        return row if (row["made"] or 0) > 500 else None

    row = wait_until(of_many, 40, "500 steps")
    assert 0 < row["noted"] < 0.7 * row["made"], row
    job.expect_progress("steps")


class Clock:
    """Stands in for the module time: a moment passes only where it is said."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


def test_values_at_the_ends_of_steps_take_half_a_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 steps of 1 ms, of which each look at the stack takes 0.05 ms."""
    native = MagicMock(table=lambda name: None)  # what C++ code offers
    monkeypatch.setitem(sys.modules, "embedded", MagicMock(__path__=[]))
    monkeypatch.setitem(sys.modules, "embedded.native", native)
    names: dict[str, Any] = {"__name__": "embedded.torch.exprs", "__package__": "embedded.torch"}
    source = (harness.ROOT / "src/embedded/torch/exprs.py").read_text()
    exec(compile(source, "exprs.py", "exec"), names)
    clock = names["time"] = Clock()
    exprs = names["Exprs"](["loss@train"])
    looks = []

    def note_stack(frame: object, step: int) -> None:
        clock.now += 50e-6
        looks.append(step)

    exprs.note_stack = note_stack
    for step in range(100_000):
        exprs.on_step(step)
        clock.now += 1e-3
    share = len(looks) * 50e-6 / clock.now
    assert 0.004 < share <= 0.005, share
    assert len(looks) > 1000


def expect_all_taken_back(probing: Cli, job: Target, ours: str) -> None:
    """`ours` is what is in the process only while variables are watched."""
    assert inside(probing, job, ours) != "[]"
    probing("-t", job.pid, "config", f"{SETTING}=off").expect(0)
    wait_until(lambda: inside(probing, job, ours) == "[]", 10, "it is as it was")
    count = "SELECT count(*) AS n FROM python.variables"
    written = ask(probing, job, count)
    job.expect_progress("steps")
    assert ask(probing, job, count) == written


@pytest.mark.parametrize("version", WITH_MONITORING)
def test_functions_off_the_stack_and_lines_are_watched(
    probing: Cli, target: StartTarget, version: str
) -> None:
    line = line_with("the line that is watched")
    spec = f"steps,exprs=whole@measure,half@{WATCHED.name}:{line},missing@measure"
    job = start(target, "train", spec, python=version)
    sql = (
        "SELECT name, func, min(number) AS least, count(*) AS n FROM python.variables GROUP BY ALL ORDER BY 1"
    )
    rows = wait_until(
        lambda: len(found := ask(probing, job, sql)) == 2 and found[0]["n"] > 3 and found,
        20,
        "values of both",
    )
    assert [(row["name"], row["func"]) for row in rows] == [("half", "measure"), ("whole", "measure")]
    sql = "SELECT name, number, step FROM python.variables WHERE name = 'whole' ORDER BY step"
    assert all(row["number"] == int(row["number"]) for row in ask(probing, job, sql))
    used = "[tool for tool in range(6) if sys.monitoring.get_tool(tool) == 'probing']"
    expect_all_taken_back(probing, job, used)


BEFORE_MONITORING = harness.wanted_pythons(lambda one: (3, 8) <= harness.version_of(one) < (3, 12))


@pytest.mark.parametrize("version", BEFORE_MONITORING)
def test_functions_off_the_stack_and_lines_are_watched_before_3_12(
    probing: Cli, target: StartTarget, version: str
) -> None:
    line, under_way = line_with("the line that is watched"), line_with("a call that never ends")
    spec = f"steps,exprs=whole@measure,half@{WATCHED.name}:{line},meter.value@{WATCHED.name}:{under_way}"
    job = start(target, "train", spec, python=version)
    values = "SELECT DISTINCT name, func FROM python.variables ORDER BY 1"
    wanted = [("half", "measure"), ("meter.value", "train"), ("whole", "measure")]
    wait_until(lambda: [tuple(row.values()) for row in ask(probing, job, values)] == wanted, 30, "all values")
    sql = "SELECT number FROM python.variables WHERE name = 'whole'"
    assert all(row["number"] == int(row["number"]) for row in ask(probing, job, sql))
    ours = "[c for c in sys.modules['__main__'].measure.__code__.co_consts if 'Place' in type(c).__name__]"
    expect_all_taken_back(probing, job, ours)


def test_the_package_switches_it(probing: Cli, target: StartTarget) -> None:
    library = str(harness.BIN / "libprobing.so")
    job = target("torch_standin", "package", PACKAGE, PROBING_LIBRARY=library)
    calls_of(probing, job)
    sql = "SELECT DISTINCT name FROM python.variables ORDER BY 1"
    wait_until(lambda: [row["name"] for row in ask(probing, job, sql)] == ["loss", "meter.value"], 10)
    job.expect_unharmed()


# ── a GPU that is not there ──────────────────────────────────────────────────────────────────


def test_times_on_a_gpu_are_its_own(probing: Cli, target: StartTarget) -> None:
    job = start(target, "gpu", "full")
    # Of several steps: where they are short, the backward passes of modules take turns.
    times = {(row["module"], row["stage"]): row for rows in calls_of(probing, job, 6)[1:] for row in rows}
    # A layer takes a millisecond there, and two backward; nothing of that passes on the CPU.
    assert times["first", "forward"]["duration_ms"] == pytest.approx(1)
    assert times["Sequential", "forward"]["duration_ms"] == pytest.approx(3)
    assert times["last", "backward"]["duration_ms"] == pytest.approx(2)
    assert times["Sequential", "backward"]["duration_ms"] == pytest.approx(6)
    assert times["first", "forward"]["device"] == "cuda:0"
    memory = [times["first", "forward"][name] for name in ("allocated", "max_allocated", "cached")]
    assert memory == [3, 5, 8]
    events = int(inside(probing, job, "torch.gpu['events']"))
    before = job.report()["steps"]
    wait_until(lambda: job.report()["steps"] > before + 50, 20, "fifty more steps")
    assert int(inside(probing, job, "torch.gpu['events']")) <= events + 100, "events are used again"


def test_a_nan_on_a_gpu_is_found_without_waiting_for_it(probing: Cli, target: StartTarget) -> None:
    job = start(target, "gpu", "full,nan=on")
    sql = "SELECT module, stage, nans, infs, numbers FROM python.nonfinite ORDER BY timestamp_ns"
    # The stand-in's last layer makes one from the thirtieth step on, and the whole model returns it.
    rows = wait_until(lambda: len(found := ask(probing, job, sql)) > 1 and found, 20, "it is found")
    assert {"module": "last", "stage": "forward", "nans": 1, "infs": 0, "numbers": 4} in rows
    assert {row["module"] for row in rows} == {"last", "Sequential"}
    job.expect_progress("steps")


def test_a_part_that_is_seen_before_its_model_gets_its_whole_name(probing: Cli, target: StartTarget) -> None:
    job = start(target, "part", "full")
    alone = calls_of(probing, job)[0]
    assert {row["module"] for row in alone} == {"Sequential", "inner", "SGD"}
    inside(probing, job, "sys.modules['__main__'].whole.append(1)")
    last = "(SELECT max(step) FROM python.torch_trace)"
    sql = f"SELECT DISTINCT module FROM python.torch_trace WHERE step > {last} - 10"
    names = {"Sequential", "first", "middle", "middle.inner", "last", "SGD"}
    wait_until(
        lambda: {row["module"] for row in ask(probing, job, sql)} == names, 20, "all have their places"
    )


def test_a_gpu_is_left_alone_while_a_graph_is_captured(probing: Cli, target: StartTarget) -> None:
    job = start(target, "capture", "full")
    calls_of(probing, job, 4)
    assert job.report()["failed"] == 0
    job.expect_progress("steps")
