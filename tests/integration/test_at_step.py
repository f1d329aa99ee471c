"""eval --at step: code sees the end of a training step, and the job waits for it, but not for long."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli, Target, ask_daemon, wait_until

StartTarget = Callable[..., Target]
TORCH = harness.ROOT / "build/torch-venv/bin/python"
needs_torch = pytest.mark.skipif(
    not TORCH.exists(), reason="needs torch in build/torch-venv (tools/install_deps.sh torch)"
)
HOOKS = "sys.modules['torch.optim.optimizer']._global_optimizer_post_hooks"
GRADIENTS = "sum(p.grad is not None for p in m.parameters())"
NOW = "(sum(float(p.grad.norm()) for p in m.parameters()), slots['steps'])"


def entered(probing: Cli, target: StartTarget, *what: object) -> Target:
    job = target(*what, python=str(TORCH))
    probing("-t", job.pid, "inject").expect(0)
    probing("-t", job.pid, "query", "SELECT 1").expect(0)  # a daemon is there
    return job


def ask(job: Target, code: str, **more: object) -> dict[str, Any]:
    return ask_daemon("POST", "eval", {"target": job.pid, "code": code, **more})


def value(job: Target, code: str, **more: object) -> Any:
    answer = ask(job, code, **more)
    assert answer["outcome"] == "ok", answer
    return eval(answer["value"])


def hooks(job: Target) -> Any:
    """The dict of torch's, by its address, and what is in it."""
    return value(job, f"import sys; h = {HOOKS}; (id(h), [str(k) for k in h])")


@needs_torch
@pytest.mark.slow(120)
def test_code_sees_the_end_of_a_step_and_the_job_waits(probing: Cli, target: StartTarget) -> None:
    job = entered(probing, target, "gradients")
    before = hooks(job)
    assert before[1] == []
    code = f"import time; first = {NOW}; time.sleep(0.1); (first == {NOW}, {GRADIENTS}, first[0] > 0)"
    for _ in range(5):
        assert value(job, code, at="step") == (True, 24, True), "nothing moved meanwhile"
    seen = {value(job, GRADIENTS) for _ in range(100)}
    assert 0 in seen, "at other moments there are none: the test can tell"
    assert hooks(job) == before
    own = "import threading; threading.get_ident() != threading.main_thread().ident"
    assert value(job, own, at="step") is True, "the code runs on a thread of ours"
    job.expect_progress("steps")


@needs_torch
@pytest.mark.slow(120)
def test_after_its_time_the_job_goes_on_and_it_is_said(probing: Cli, target: StartTarget) -> None:
    job = entered(probing, target, "gradients")
    probing("-t", job.pid, "config", "probing.eval.step_hold=200ms").expect(0)
    code = "import time; n = slots['steps']; time.sleep(0.1); a = slots['steps']; time.sleep(1); "
    answer = probing("-t", job.pid, "eval", "--at", "step", code + "(a - n, slots['steps'] - a > 2)").expect(
        0
    )
    assert answer.stdout == "(0, True)\n"
    assert (
        "the job's thread went on before the code was done (probing.eval.step_hold: 0.2 s)" in answer.stderr
    )
    quick = probing("-t", job.pid, "eval", "--at", "step", "1").expect(0)
    assert quick.stderr == ""
    assert hooks(job)[1] == []
    job.expect_progress("steps")


def test_without_torch_it_is_refused(probing: Cli, busy: Target) -> None:
    answer = probing("-t", busy.pid, "eval", "--at", "step", "1").expect(1)
    assert "this process has not imported torch" in answer.stderr
    assert "--at step" in probing("-t", busy.pid, "eval", "--at", "noon", "1").expect(2).stderr
    assert "has not imported torch" in ask(busy, "%at step", op="line", session="s")["traceback"]
    busy.expect_progress()


@needs_torch
@pytest.mark.slow(120)
def test_without_a_step_it_ends_in_time_and_says_what_the_job_does(probing: Cli, target: StartTarget) -> None:
    job = entered(probing, target, "torch_kinds", "fixed", 3)
    wait_until(lambda: job.report()["checksum"], 20, "it makes no more steps")
    answer = probing("-t", job.pid, "eval", "--at", "step", "--timeout", 1, "print('ran')").expect(5)
    assert answer.stdout == ""
    assert "no optimizer has ended a step within the time limit. Nothing was run" in answer.stderr
    assert "fixed (" in answer.stderr and "target_torch_kinds.py:" in answer.stderr
    assert hooks(job)[1] == []
    assert "SyntaxError" in ask(job, "1 +", at="step")["traceback"], "no step is waited for"
    job.expect_unharmed()


@needs_torch
@pytest.mark.slow(120)
def test_a_step_within_a_backward_pass_is_none(probing: Cli, target: StartTarget) -> None:
    job = entered(probing, target, "torch_kinds", "in_backward")
    answer = probing("-t", job.pid, "eval", "--at", "step", "--timeout", 2, "1").expect(5)
    assert "within a backward pass" in answer.stderr
    assert hooks(job)[1] == []
    job.expect_progress("steps")


def begun(job: Target, *words: object) -> subprocess.Popen[bytes]:
    command = [harness.BIN / "probing", "-t", job.pid, "eval", "--at", "step", "--timeout", 60, *words]
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@needs_torch
@pytest.mark.parametrize("how", ["client goes", "eject"])
@pytest.mark.slow(120)
def test_a_wait_for_a_step_leaves_nothing_behind(probing: Cli, target: StartTarget, how: str) -> None:
    job = entered(probing, target, "torch_kinds", "fixed", 3)
    wait_until(lambda: job.report()["checksum"], 20, "it makes no more steps")
    client = begun(job, "1")
    wait_until(lambda: "probing-eval" in thread_names(job.pid), 20, "it waits")
    if how == "eject":
        probing("-t", job.pid, "eject").expect(0)
        probing("-t", job.pid, "inject").expect(0)
    else:
        client.kill()
    client.communicate(timeout=20)
    assert hooks(job)[1] == []
    job.expect_unharmed()


def thread_names(pid: int) -> list[str]:
    folder = Path(f"/proc/{pid}/task")
    return [(each / "comm").read_text().strip() for each in folder.iterdir()]


@needs_torch
@pytest.mark.parametrize("how", ["client goes", "eject"])
@pytest.mark.slow(120)
def test_a_thread_that_is_held_goes_on_when_nobody_waits(probing: Cli, target: StartTarget, how: str) -> None:
    job = entered(probing, target, "gradients")
    probing("-t", job.pid, "config", "probing.eval.step_hold=60").expect(0)
    client = begun(job, "import time, sys; sys.held = True\nwhile True: time.sleep(0.01)")

    def is_held() -> bool:
        before = job.report()["steps"]
        time.sleep(0.3)
        return job.report()["steps"] == before

    wait_until(is_held, 20, "it is held")
    if how == "eject":
        probing("-t", job.pid, "eject").expect(0)
    else:
        client.kill()
    client.communicate(timeout=20)
    job.expect_progress("steps")
    if how == "eject":
        probing("-t", job.pid, "inject").expect(0)
    assert hooks(job)[1] == []
    job.expect_progress("steps")


@needs_torch
@pytest.mark.slow(120)
def test_hooks_of_the_jobs_own_stay_what_they_are(probing: Cli, target: StartTarget) -> None:
    """The thread is mostly within its hook, where it would see that the number of hooks has changed."""
    job = entered(probing, target, "torch_kinds", "hooked")
    before = hooks(job)
    assert len(before[1]) == 1
    for _ in range(60):
        assert value(job, "report['steps'] > 0", at="step") is True
    assert hooks(job) == before
    job.expect_progress("steps")


@needs_torch
@pytest.mark.slow(120)
def test_lines_of_a_session_run_at_a_step(probing: Cli, target: StartTarget) -> None:
    job = entered(probing, target, "gradients")

    def line(text: str) -> str:
        answer = ask(job, text, op="line", session="s")
        assert answer["outcome"] == "ok", answer
        return answer["value"]

    assert {line(f"%at step {GRADIENTS}") for _ in range(10)} == {"24"}
    assert line("_") == "24"
    assert line("%at step") == "lines run at the end of a step now"
    assert {line(GRADIENTS) for _ in range(10)} == {"24"}
    assert line("%at off") == "lines run at once again"
    assert "%at takes step" in ask(job, "%at noon", op="line", session="s")["traceback"]
    assert "0" in {line(GRADIENTS) for _ in range(100)}
    frames = [
        value(job, "type(self).__name__", at="step", frame="0"),
        value(job, "__name__", at="step", frame="1"),
    ]
    assert frames == ["SGD", "__main__"], "the frames of the step, not of our hook"
    assert hooks(job)[1] == []
    job.expect_progress("steps")
