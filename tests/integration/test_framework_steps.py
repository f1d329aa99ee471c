"""Steps of frameworks' own loops are those that the framework counts, and their parts are what the program's
own timers say (tests/targets/target_framework_steps.py)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import framework_jobs
import harness
import pytest
from harness import Cli
from test_torch_steps import STEPS, expect_steps, rows_of, train
from zygote import ForkedTarget, Zygote

StartTarget = Callable[..., harness.Target]
IMPORTED = ("transformers.trainer", "accelerate", "lightning")
# Backward passes of a step; steps that may be missing or too many; where its numbers come from.
KINDS = {
    "trainer": (1, 1, "job"),
    "trainer_accumulates": (4, 1, "job"),
    "accelerated": (1, 1, "optimizer"),
    "lightning": (1, 1, "job"),
    "fsdp": (1, 1, "counted"),
}
STAGES = ["zero0", "zero1", "zero2", "zero3"]
DEEPSPEED_PYTHON = harness.ROOT / "build/launchers-venv/bin/python"  # tools/install_deps.sh launchers
# What DeepSpeed compiles for a CPU when it is first used takes minutes.
COMPILES = 600

pytestmark = [
    pytest.mark.slow(240),
    pytest.mark.skipif(
        not framework_jobs.FRAMEWORKS_PYTHON.exists(),
        reason="needs transformers and lightning in build/frameworks-venv (tools/install_deps.sh frameworks)",
    ),
]


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    one = Zygote(framework_jobs.FRAMEWORKS_PYTHON, IMPORTED)
    yield one
    one.close()


@pytest.fixture(scope="module")
def deepspeed_zygote() -> Iterator[Zygote]:
    if not DEEPSPEED_PYTHON.exists():
        pytest.skip("needs deepspeed in build/launchers-venv (tools/install_deps.sh launchers)")
    one = Zygote(DEEPSPEED_PYTHON)
    yield one
    one.close()


def starter(folder: Path, zygote: Zygote, **environment: str) -> Iterator[StartTarget]:
    started: list[ForkedTarget] = []

    def begin(name: str, *arguments: object) -> harness.Target:
        command = [str(harness.TARGETS / f"target_{name}.py"), *map(str, arguments)]
        started.append(ForkedTarget(zygote, command, folder, environment))
        return started[-1]

    yield begin
    for one in started:
        one.kill()


@pytest.fixture
def start(tmp_path: Path, zygote: Zygote) -> Iterator[StartTarget]:
    yield from starter(tmp_path, zygote, HF_HUB_OFFLINE="1")


@pytest.fixture
def start_deepspeed(tmp_path: Path, deepspeed_zygote: Zygote) -> Iterator[StartTarget]:
    yield from starter(tmp_path, deepspeed_zygote, DS_ACCELERATOR="cpu", LOCAL_RANK="0")


def expect_right(
    probing: Cli, start: StartTarget, path: Path, kind: str, expected: tuple[int, int, str]
) -> None:
    job = train(start, kind, path, program="framework_steps")
    own = json.loads(path.read_text())
    rows = rows_of(probing, job)
    passes, tolerated, source = expected
    expect_steps(rows, own, passes, tolerated)
    assert {row["step_source"] for row in rows[2:]} == {source}
    assert rows[-1]["step"] in range(STEPS - 2, STEPS + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_and_their_parts_are_those_of_the_framework(
    probing: Cli, start: StartTarget, tmp_path: Path, kind: str
) -> None:
    expect_right(probing, start, tmp_path / "spent", kind, KINDS[kind])


@pytest.mark.slow(COMPILES)
@pytest.mark.parametrize("kind", STAGES)
def test_steps_and_their_parts_are_those_of_deepspeed(
    probing: Cli, start_deepspeed: StartTarget, tmp_path: Path, kind: str
) -> None:
    expect_right(probing, start_deepspeed, tmp_path / "spent", kind, (1, 1, "job"))
