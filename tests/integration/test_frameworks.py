"""Jobs of real frameworks: what is wrong is named with its rank and nothing else, healthy ones give no alarm.

Here a few of them; every framework, every trouble and every kind of healthy job: `make diagnose-runs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import framework_jobs as jobs
import pytest
from harness import Cli
from zygote import TORCH, Zygote

WORLD = 4
PATIENCE = 2

pytestmark = [
    pytest.mark.slow(240),
    pytest.mark.skipif(
        not TORCH.exists(), reason="needs torch in build/torch-venv (tools/install_deps.sh torch)"
    ),
]


@pytest.fixture(scope="module")
def trainer_zygote() -> Iterator[Zygote]:
    if not jobs.FRAMEWORKS_PYTHON.exists():
        pytest.skip("needs transformers in build/frameworks-venv (tools/install_deps.sh frameworks)")
    zygote = Zygote(jobs.FRAMEWORKS_PYTHON, jobs.MODULES["trainer"])
    yield zygote
    zygote.close()


@pytest.mark.load_dependent("a rank that gets no CPU is a straggler in truth")
@pytest.mark.parametrize(
    ("framework", "trouble", "way", "words"),
    [
        ("ddp", "condition", "inject", "is in wait_for_thread (framework_troubles.py:"),
        ("fsdp", "op", "torchrun", "calls broadcast"),
        ("pipeline", "fifo", "start", "is in read_fifo (framework_troubles.py:"),
        ("loader", "exit0", "start", "with exit code 0, while the others still needed it"),
    ],
)
def test_what_is_wrong_is_named_with_its_rank_and_nothing_else(
    probing: Cli,
    torch_zygote: Zygote,
    tmp_path: Path,
    framework: str,
    trouble: str,
    way: str,
    words: str,
) -> None:
    zygote = None if way == "torchrun" else torch_zygote
    run = jobs.run(probing, zygote, tmp_path, framework, trouble, 1, WORLD, PATIENCE, way)
    assert run.is_right, run
    assert words in run.finding["evidence"], run
    assert [seen["ranks"] for seen in run.seen] in ([WORLD], []), run  # none of a job that has ended


@pytest.mark.load_dependent("a rank that gets no CPU is a straggler in truth")
def test_a_straggler_of_hugging_faces_trainer(probing: Cli, trainer_zygote: Zygote, tmp_path: Path) -> None:
    run = jobs.run(
        probing, trainer_zygote, tmp_path, "trainer", "slow_optimizer", 1, WORLD, PATIENCE, "inject"
    )
    assert run.is_right, run
    assert "slow_part (" in run.finding["evidence"], run


@pytest.mark.load_dependent("a rank that gets no CPU is a straggler in truth")
def test_a_healthy_job_gives_no_alarm(probing: Cli, torch_zygote: Zygote, tmp_path: Path) -> None:
    assert jobs.run_healthy(probing, torch_zygote, tmp_path, "ddp", "profiler", WORLD, PATIENCE) == []
