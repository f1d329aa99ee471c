"""A thread that looks as if it could be borrowed, and must not be: another one, or another moment."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import harness
import pytest
from harness import Answer, Cli, Target, wait_until

StartTarget = Callable[..., Target]


def inject(probing: Cli, target: Target) -> Answer:
    answer = probing("-t", target.pid, "inject", "--no-python").expect(0)
    assert harness.is_probed(target.pid)
    return answer


def eject(probing: Cli, target: Target) -> None:
    probing("-t", target.pid, "eject").expect(0)
    wait_until(lambda: harness.probe_socket(target.pid) is None, 30, "the control socket is gone")


# ── the thread ───────────────────────────────────────────────────────────────────────────────


def test_a_thread_with_a_seccomp_filter_of_its_own_is_left_alone(probing: Cli, target: StartTarget) -> None:
    """Its main thread has none. The filter kills the whole process for a new thread."""
    job = target("odd_threads", "seccomp", c=True)
    for _ in range(5):
        inject(probing, job)
        job.expect_progress()
        eject(probing, job)
    assert "1 of 2 threads" in probing("-t", job.pid, "doctor").stdout
    job.expect_progress()


# ── what it interrupted ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["handler", "restorer"])
def test_a_handler_that_interrupted_malloc_is_seen_at_any_depth(
    probing: Cli, target: StartTarget, how: str
) -> None:
    """`handler` has 64 KiB of local variables between the stack pointer and the frame; `restorer` returns
    through code of its own, so that no address gives the frame away."""
    for _ in range(4):
        job = target("odd_threads", how, c=True)
        wait_until(lambda job=job: job.report()["over_libc"] > 3, 30, "its handler interrupts malloc")
        inject(probing, job)
        before = job.report()["over_libc"]
        wait_until(lambda job=job, before=before: job.report()["over_libc"] > before, 10, "it goes on")
        job.expect_progress()
        job.kill()


@pytest.mark.load_dependent("a helper thread has 300 ms to begin; where it gets no CPU the attach is refused")
def test_an_allocator_that_looks_at_the_clock_is_not_borrowed_there(
    probing: Cli, target: StartTarget
) -> None:
    for _ in range(4):
        job = target("reading_allocator", "clock", c=True)
        job.expect_progress("allocations")
        inject(probing, job)
        job.expect_progress("allocations")
        job.expect_progress("turns")
        job.kill()


def test_a_thread_that_waits_for_itself_is_put_back(probing: Cli, target: StartTarget) -> None:
    """From outside, an allocator that sleeps while it holds its lock looks like any thread that sleeps. It is
    taken out of our call again, and the error says what happened."""
    job = target("reading_allocator", "sleep", c=True)
    job.expect_progress("allocations")
    for _ in range(3):
        before = job.snapshot()
        answer = probing("-t", job.pid, "inject", "--no-python", "--timeout", 3)
        job.expect_progress("allocations")
        assert answer.code != 0
        assert "waited for a lock" in answer.stderr and "put back" in answer.stderr, answer
        assert "ulimit" not in answer.stderr
        assert job.snapshot().threads == before.threads


# ── the stack it is on ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["altstack", "local", "coroutine"])
def test_data_around_a_stack_of_the_program_s_own_stays(probing: Cli, target: StartTarget, how: str) -> None:
    job = target("odd_threads", how, c=True)
    job.expect_progress()
    assert job.report()["overwritten"] == 0, "the program itself leaves its data alone"
    for _ in range(5):
        inject(probing, job)
        job.expect_progress()
        eject(probing, job)
    job.expect_progress()
    assert job.report()["overwritten"] == 0


def test_a_program_that_never_leaves_its_coroutine_is_refused_by_name(
    probing: Cli, target: StartTarget
) -> None:
    job = target("odd_threads", "coroutine_only", c=True)
    answer = probing("-t", job.pid, "inject", "--no-python", "--timeout", 1)
    assert answer.code != 0
    assert "a stack that is not its own" in answer.stderr, answer
    assert not harness.is_probed(job.pid)
    job.expect_progress()


# ── what it has afterwards ───────────────────────────────────────────────────────────────────


def signal_masks(pid: int) -> dict[str, str]:
    masks = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("SigBlk:"):
                masks[task.name] = line.split()[1]
    return masks


@pytest.mark.parametrize("how", ["nanosleep", "poll", "futex", "read", "epoll"])
def test_a_borrowed_thread_has_its_signal_mask_back(probing: Cli, target: StartTarget, how: str) -> None:
    job = target("blocked", how, c=True)
    before = signal_masks(job.pid)

    def masks_of_the_job() -> dict[str, str]:
        return {tid: mask for tid, mask in signal_masks(job.pid).items() if tid in before}

    for _ in range(5):
        inject(probing, job)
        wait_until(lambda: masks_of_the_job() == before, 5, "each thread blocks what it blocked")
        eject(probing, job)
    job.expect_progress()


def test_a_program_that_was_borrowed_while_it_slept_still_ends_by_sigterm(
    probing: Cli, target: StartTarget
) -> None:
    job = target("odd_threads", "sigterm", c=True)
    inject(probing, job)
    os.kill(job.pid, signal.SIGTERM)
    assert job.finish(timeout=10) == ""
