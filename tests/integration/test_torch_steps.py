"""Steps are updates of the parameters, and their parts are what the job's own timers say: on loops of many
kinds (tests/targets/target_torch_steps.py). Needs torch."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli, Target, wait_until
from test_torch import SETTING, TORCH, ask

StartTarget = Callable[..., Target]
STEPS = 40
# Within a tenth where nothing else runs: PROBING_STRICT=1 asks for that.
EXACT = 0.1 if os.environ.get("PROBING_STRICT") == "1" else 0.4
PARTS = ("data_wait", "forward", "backward", "optimizer")

pytestmark = [
    pytest.mark.skipif(
        not TORCH.exists(), reason="needs torch in build/torch-venv (tools/install_deps.sh torch, 1 GB)"
    ),
    pytest.mark.slow(240),
]

# Backward passes of a step; how many steps may be missing or too many until it is known what ends one.
KINDS: dict[str, tuple[int, int]] = {
    "plain": (1, 1),
    "accumulate": (4, 1),
    "gan": (2, 1),
    "wgan": (6, 5),
    "layers": (1, 1),
    "groups": (1, 1),
    "lbfgs": (4, 1),
    "closure": (1, 1),
    "in_backward": (1, 1),
    "manual": (1, 2),
    "manual_data": (2, 2),
    "gradients": (1, 1),
    "rollouts": (1, 1),
    "teacher": (1, 1),
    "validation": (1, 1),
    "generate": (1, 1),
    "answering": (1, 1),
    "loaded": (1, 1),
    "prefetched": (1, 1),
    "scaled": (1, 1),
    "checkpointed": (1, 1),
}


def train(
    forked: StartTarget, kind: str, path: Path, spec: str = "on", program: str = "torch_steps"
) -> Target:
    """A job that is traced from its first step on and has made all of them."""
    job, probing = forked(program, kind, path, STEPS), Cli(harness.BIN)
    probing("-t", job.pid, "inject").expect(0)
    probing("-t", job.pid, "config", f"{SETTING}={spec}").expect(0)
    hooked = "import torch; print(hasattr(torch.autograd._engine_run_backward, '__code__'))"
    wait_until(lambda: probing("-t", job.pid, "eval", hooked).stdout == "False\n", 60, "it is traced")
    Path(f"{path}.go").touch()
    wait_until(path.exists, 120, "all steps are made")
    return job


def rows_of(probing: Cli, job: Target) -> list[dict[str, Any]]:
    return ask(probing, job.pid, "SELECT * FROM python.torch_steps ORDER BY timestamp_ns")


@pytest.mark.parametrize("kind", KINDS)
def test_steps_and_their_parts_are_those_of_the_job(
    probing: Cli, forked: StartTarget, tmp_path: Path, kind: str
) -> None:
    job = train(forked, kind, tmp_path / "spent")
    own = json.loads((tmp_path / "spent").read_text())
    # An update by hand is the job's own code; a GradScaler looks at all gradients before.
    left_out = ("optimizer",) if kind in ("manual", "manual_data", "scaled") else ()
    expect_steps(rows_of(probing, job), own, *KINDS[kind], left_out)
    job.expect_unharmed()


def expect_steps(
    rows: list[dict[str, Any]],
    own: dict[str, float],
    passes: int,
    tolerated: int,
    left_out: tuple[str, ...] = (),
) -> None:
    """`own` is what the job's timers say."""
    rows = [row for row in rows if row["phase"] == "train"]
    # The first one has no beginning that we have seen, and one without an optimizer ends with the next.
    assert STEPS - 2 - tolerated <= len(rows) <= STEPS + tolerated
    numbers = [row["step"] for row in rows]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert sorted(row["backward_passes"] for row in rows)[len(rows) // 2] == passes
    rows = [row for row in rows if row["timestamp_ns"] > (own["since"] - 0.001) * 1e9]
    sums = {part: sum(row[part] or 0 for row in rows) / len(rows) for part in (*PARTS, "duration")}
    own["duration"] = own["step"]
    for part, seen in sums.items():
        if part in left_out:
            continue
        wanted = own[part] / own["steps"]
        # Others that get the core between the job's look at the clock and ours must not make this fail; what
        # is counted as the wrong part is far off.
        assert abs(seen - wanted) < EXACT * wanted + 0.02 * sums["duration"], (part, seen, wanted, sums, own)


def test_evaluations_have_a_phase_of_their_own(probing: Cli, forked: StartTarget, tmp_path: Path) -> None:
    job = train(forked, "validation", tmp_path / "spent", "full")
    rows = [row for row in rows_of(probing, job) if row["phase"] != "train"]
    assert {row["phase"] for row in rows} == {"validate"}
    assert {row["step"] for row in rows} == set(range(10, STEPS, 10)), "of the step that follows"
    assert len(rows) == 6 * 3, "a row for each batch"
    assert all(row["backward"] == row["optimizer"] == 0 < row["forward"] for row in rows)
    sql = "SELECT DISTINCT step, stage, phase FROM python.torch_trace WHERE step = 30 ORDER BY phase, stage"
    traced = [(row["stage"], row["phase"]) for row in ask(probing, job.pid, sql)]
    assert traced == [("backward", "train"), ("forward", "train"), ("step", "train"), ("forward", "validate")]
    [seqs] = ask(
        probing,
        job.pid,
        "SELECT count(*) AS n, count(DISTINCT seq) AS seqs FROM python.torch_trace WHERE step = 30",
    )
    assert seqs["n"] == seqs["seqs"]


def test_a_model_that_is_asked_for_answers_is_not_validated(
    probing: Cli, forked: StartTarget, tmp_path: Path
) -> None:
    job = train(forked, "generate", tmp_path / "spent")
    others = [row["phase"] for row in rows_of(probing, job) if row["phase"] != "train"]
    # Before the first backward pass nothing tells that the job trains.
    assert set(others) == {"infer"} and 8 * 7 <= len(others) <= 8 * 8


def test_the_source_of_a_number_is_said(probing: Cli, forked: StartTarget, tmp_path: Path) -> None:
    (tmp_path / "adam").mkdir()
    adam = rows_of(probing, train(forked, "plain", tmp_path / "adam/spent"))
    assert {row["step_source"] for row in adam} == {"optimizer"}
    assert [row["step"] for row in adam] == list(range(1, STEPS))
    sgd = rows_of(probing, train(forked, "gradients", tmp_path / "spent"))
    assert {row["step_source"] for row in sgd} == {"counted"}


@pytest.mark.parametrize("kind", ["accumulate", "plain"])
def test_numbers_do_not_restart(probing: Cli, forked: StartTarget, kind: str) -> None:
    """SGD does not count its steps, AdamW does."""
    job = forked("torch_kinds", kind)
    probing("-t", job.pid, "inject").expect(0)
    last = -1
    for spec in ("steps", "full", "off", "on", "on,nan=on"):
        probing("-t", job.pid, "config", f"{SETTING}={spec}").expect(0)
        if spec == "off":
            continue
        sql = f"SELECT min(step) AS first, max(step) AS last FROM python.torch_steps WHERE step > {last}"

        def more(sql: str = sql, last: int = last) -> dict[str, Any] | None:
            [row] = ask(probing, job.pid, sql)
            return row if row["last"] is not None and row["last"] > last + 10 else None

        row = wait_until(more, 30, f"steps go on with {spec}")
        [again] = ask(
            probing,
            job.pid,
            "SELECT count(*) AS n, count(DISTINCT step) AS steps FROM python.torch_steps",
        )
        assert again["n"] == again["steps"]
        last = row["last"]
    job.expect_progress("steps")


def test_the_module_that_a_nan_came_from(probing: Cli, forked: StartTarget) -> None:
    """At the default rate: it was the first one of the next traced step, all of which are NaN."""
    job = forked("torch_kinds", "diverging")
    probing("-t", job.pid, "inject").expect(0)
    probing("-t", job.pid, "config", f"{SETTING}=on,nan=on").expect(0)
    sql = "SELECT * FROM python.nonfinite ORDER BY timestamp_ns"
    rows = wait_until(lambda: len(r := ask(probing, job.pid, sql)) > 3 and r, 60, "it diverges")
    assert (rows[0]["module"], rows[0]["stage"], rows[0]["origin"]) == ("middle", "forward", True)
    assert not any(row["origin"] for row in rows[1:])
    found = probing("-t", job.pid, "diagnose").stdout
    assert "came from module middle at step" in found, found
    job.expect_progress("steps")
