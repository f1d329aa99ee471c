"""Real jobs on gloo, each rank on a machine of its own: `probing diagnose` names what is wrong, and the rank.

Here a few of them; every kind of trouble, twenty times, and twenty healthy jobs: `make diagnose-runs`.
"""

from __future__ import annotations

from pathlib import Path

import gloo_jobs
import pytest
from gloo_jobs import GlooJob, Run
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


def test_a_hang_is_named_and_what_to_do_next_can_be_done(
    probing: Cli, torch_zygote: Zygote, tmp_path: Path
) -> None:
    def do_what_is_next(job: GlooJob, run: Run) -> None:
        """On the first machine, about a process of another one."""
        assert run.is_right, run
        assert run.finding["host"] == f"node{run.who}" and run.who != 0
        program, *words = run.finding["next"].split()
        assert (program, words[-1]) == ("probing", "backtrace")
        assert "wait_for_ever (" in job.network[0](*words).expect(0).stdout
        text = job.network[0]("diagnose", "--patience", PATIENCE, "--class", "collective_hang").expect(0)
        assert f"collective_hang rank {run.who} on node{run.who}\n" in text.stdout
        assert f"{WORLD} of {WORLD} hosts answered" in text.stderr

    gloo_jobs.run(probing, torch_zygote, tmp_path, "hang", 1, WORLD, PATIENCE, do_what_is_next)


def test_a_slow_network_is_named(probing: Cli, torch_zygote: Zygote, tmp_path: Path) -> None:
    run = gloo_jobs.run(probing, torch_zygote, tmp_path, "slow_network", 0, WORLD, PATIENCE)
    assert run.is_right, run


def test_a_healthy_job_gives_no_alarm(probing: Cli, torch_zygote: Zygote, tmp_path: Path) -> None:
    with gloo_jobs.started(probing, torch_zygote, tmp_path, WORLD, "none", -1, 0) as job:
        job.await_steps(120)
        assert job.findings(PATIENCE) == []
