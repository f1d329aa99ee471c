"""census=on: tensors that are alive at the ends of steps, what there is more and more of, and which module
has made it. Needs build/torch-venv."""

from __future__ import annotations

from typing import Any

import pytest
from harness import Cli, Target, wait_until
from test_torch import SETTING, StartTarget, ask, pytestmark, start

__all__ = ["pytestmark"]

CENSUS = "full,census=on"
STEPS = "SELECT count(DISTINCT step) AS steps FROM python.tensor_census"


def counted(probing: Cli, job: Target, least: int) -> None:
    # What looking may cost decides how often it is done: here as often as possible.
    probing("-t", job.pid, "config", "probing.torch.max_overhead=100%").expect(0)
    probing("-t", job.pid, "config", f"{SETTING}={CENSUS}").expect(0)
    wait_until(lambda: ask(probing, job.pid, STEPS)[0]["steps"] >= least, 60, "tensors are counted")


def leaks_by_shape(probing: Cli, job: Target, *more: object) -> dict[str, dict[str, Any]]:
    rows = probing("-t", job.pid, "memory", "--leaks", "--json", *more).expect(0).json
    return {f"{row['shape']} {row['dtype']}": row for row in rows}


def test_tensors_are_counted_at_the_ends_of_steps(probing: Cli, forked: StartTarget) -> None:
    job = start(forked, "plain", CENSUS)
    counted(probing, job, 4)
    rows = ask(
        probing,
        job.pid,
        "SELECT DISTINCT type, shape, dtype, device, count, bytes FROM python.tensor_census WHERE shape IN"
        " ('[32, 32]', '[1, 32]') AND step > 10 ORDER BY type, shape",
    )
    # Weights; their gradients and the two averages that AdamW has of them.
    assert [tuple(row.values()) for row in rows] == [
        ("Parameter", "[1, 32]", "float32", "cpu", 1, 128),
        ("Parameter", "[32, 32]", "float32", "cpu", 1, 4096),
        ("Tensor", "[1, 32]", "float32", "cpu", 3, 384),
        ("Tensor", "[32, 32]", "float32", "cpu", 3, 12288),
    ]
    memory = (
        "SELECT tensor_count, tensor_bytes FROM python.memory WHERE tensor_count > 0 ORDER BY timestamp DESC"
    )
    [last, *_] = wait_until(lambda: ask(probing, job.pid, memory), 30, "python.memory has them")
    assert last["tensor_bytes"] > 4096 + 12288
    job.expect_progress("steps")


def test_a_leak_is_named_with_its_module(probing: Cli, forked: StartTarget) -> None:
    job = start(forked, "leaking", CENSUS)
    counted(probing, job, 6)
    found = wait_until(
        lambda: (
            {"[8, 32] float32", "[] float32", "[7, 32] float64"}
            <= (leaks := leaks_by_shape(probing, job)).keys()
            and leaks
        ),
        60,
        "all three grow over steps",
    )
    output, loss, made = (found[one] for one in ("[8, 32] float32", "[] float32", "[7, 32] float64"))
    assert output["steps"] > 0 and output["grown"] > 0
    # A module has returned it; code behind a module has made it; nobody knows.
    assert (output["module"], output["made_by"]) == ("0", None)
    assert (loss["module"], loss["made_by"]) == ("after 2", "MseLossBackward0")
    assert (made["module"], made["made_by"]) == (None, None)
    assert "inputs in leaking() at target_torch_kinds.py:" in made["holder"]
    job.expect_progress("steps")


def test_the_module_of_a_leak_is_known_by_its_graph_alone(probing: Cli, forked: StartTarget) -> None:
    job = forked("torch_kinds", "leaking")
    probing("-t", job.pid, "inject").expect(0)
    found = leaks_by_shape(probing, job, "-d", "1")
    assert found["[] float32"]["module"] == "after 2"
    assert found["[8, 32] float32"]["module"] is None
    assert found["[8, 32] float32"]["steps"] is None, "nobody has seen steps"


def test_a_census_leaves_nothing_behind(probing: Cli, forked: StartTarget) -> None:
    job = forked("torch_kinds", "held")
    probing("-t", job.pid, "inject").expect(0)

    def alive() -> int:
        before = job.report()["steps"]
        wait_until(lambda: job.report()["steps"] > before + 20, 30, "it counts again")
        return job.report()["alive"]

    alone = alive()
    counted(probing, job, 3)
    probing("-t", job.pid, "config", f"{SETTING}=off").expect(0)
    wait_until(lambda: alive() == alone, 30, "it is as it was")


@pytest.mark.parametrize("kind", ["compiled", "accumulate", "deleted", "background"])
def test_odd_trainings_are_counted_and_unharmed(probing: Cli, forked: StartTarget, kind: str) -> None:
    job = start(forked, kind, CENSUS)
    counted(probing, job, 3)
    job.expect_progress("steps")
    report = job.report()
    assert report["wrong"] == 0
    assert kind != "deleted" or report["alive"] == 0
