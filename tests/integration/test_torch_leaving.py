"""A probe that is told to leave while a thread of a PyTorch job is in its code."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import harness
import pytest
from harness import Cli, Target, wait_until

StartTarget = Callable[..., Target]
TORCH = harness.ROOT / "build/torch-venv/bin/python"
pytestmark = [
    pytest.mark.skipif(
        not TORCH.exists(), reason="needs torch in build/torch-venv (tools/install_deps.sh torch)"
    ),
    pytest.mark.slow(240),
]
TRACING = "probing.torch.profiling=full,exprs=state@train"


def is_mapped(job: Target) -> bool:
    return "libprobing" in Path(f"/proc/{job.pid}/maps").read_text()


def trace(probing: Cli, job: Target) -> None:
    probing("-t", job.pid, "inject").expect(0)
    probing("-t", job.pid, "config", TRACING).expect(0)
    sql = "SELECT count(*) AS n FROM python.torch_steps"
    wait_until(lambda: harness.rows(probing, sql, job.pid)[0]["n"] > 3, 30, "steps are traced")


def test_the_library_goes_when_the_call_that_is_inside_of_it_ends(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    """It stayed for good when the loader had no batch for half a second."""
    job = target("torch_leaving", tmp_path, python=str(TORCH))
    trace(probing, job)
    (tmp_path / "hold").touch()
    before = job.report()["steps"]
    wait_until(
        lambda: job.report()["asked"] == job.report()["steps"] + 1 > before, 20, "it waits for a batch"
    )
    answer = probing("-t", job.pid, "eject").expect(0)
    assert "the library is unmapped when the last of them is gone" in answer.stdout
    assert is_mapped(job), "its code is on the stack of a thread"
    # A further visit is not blamed for the library that stays.
    probing("-t", job.pid, "inject").expect(0)
    assert probing("-t", job.pid, "eval", "6 * 7").expect(0).stdout == "42\n"
    assert "unmapped when" not in probing("-t", job.pid, "eject").expect(0).stdout
    (tmp_path / "hold").unlink()
    wait_until(lambda: not is_mapped(job), 20, "the library is unmapped")
    job.expect_progress("steps")
    threads = harness.thread_states(job.pid)
    assert len(threads) == 1 or not any("probing" in name for name in thread_names(job)), threads
    for _ in range(3):
        job.expect_progress("steps")


def test_a_probe_that_leaves_slowly_does_not_take_the_socket_of_the_next_one(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    """On a busy machine the next probe was there before the old one removed its socket, which has the same
    path: `process has no probe`, one visit in some hundreds."""
    job = target("torch_leaving", tmp_path, python=str(TORCH))
    trace(probing, job)
    (tmp_path / "hold").touch()
    wait_until(lambda: job.report()["asked"] == job.report()["steps"] + 1, 20, "it waits for a batch")
    [probe] = [path.parent.name for path in comm_files(job) if path.read_text() == "probing\n"]
    delay = ["-e", "trace=unlink,unlinkat", "-e", "inject=unlink,unlinkat:delay_enter=2s"]
    log = tmp_path / "strace"
    with subprocess.Popen(["strace", "-q", "-o", str(log), *delay, "-p", probe]) as strace:
        wait_until(lambda: harness.proc_status(int(probe), "TracerPid") != "0", 10, "strace is attached")
        assert "the library is unmapped when" in probing("-t", job.pid, "eject").expect(0).stdout
        probing("-t", job.pid, "inject").expect(0)
        strace.wait(timeout=20)  # the old probe's thread has ended
    assert "unlink" in log.read_text()
    assert probing("-t", job.pid, "eval", "6 * 7").expect(0).stdout == "42\n"
    probing("-t", job.pid, "eject").expect(0)
    (tmp_path / "hold").unlink()
    wait_until(lambda: not is_mapped(job), 20, "both libraries are unmapped")


def comm_files(job: Target) -> list[Path]:
    return list(Path(f"/proc/{job.pid}/task").glob("*/comm"))


def thread_names(job: Target) -> list[str]:
    return [path.read_text() for path in comm_files(job)]


def test_a_step_that_is_being_noted_survives_the_end_of_tracing(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    """The job crashed: what the tracer had was freed while the end of a step waited for a value's text."""
    job = target("torch_leaving", tmp_path, python=str(TORCH))
    for _ in range(3):
        (tmp_path / "slow").unlink(missing_ok=True)
        trace(probing, job)
        (tmp_path / "slow").touch()
        wait_until(lambda: job.report()["printing"] == 1, 20, "the end of a step prints a value")
        probing("-t", job.pid, "eject").expect(0)
        job.expect_progress("steps")
        wait_until(lambda: not is_mapped(job), 20, "the library is unmapped")
