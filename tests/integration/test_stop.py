"""`backtrace --stop`: all threads at one instant, and a target that goes on as if nothing had been."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import harness
import pytest

StartTarget = Callable[..., harness.Target]
HELD = re.compile(r"held (\d+) threads? for [\d.]+ ms")


def test_threads_that_churn_are_never_torn(probing: harness.Cli, target: StartTarget, python: str) -> None:
    churning = target("churn", python=python)
    for _ in range(5):
        answer = probing("backtrace", "-t", churning.pid, "--stop", "--json").expect(0)
        threads = answer.json["threads"]
        assert [thread["torn"] for thread in threads] == [False] * len(threads)
        # Those asleep where a stop would begin their wait anew are left there: they stand still anyway.
        last = answer.stderr.splitlines()[-1]
        held, asleep = HELD.search(last), re.search(r"left (\d+) threads? asleep", last)
        assert held and int(held[1]) + (int(asleep[1]) if asleep else 0) >= 4, answer.stderr
    for counter in ("allocations", "loads", "threads"):
        churning.expect_progress(counter)


def test_calls_as_fast_as_python_can_are_never_torn(
    probing: harness.Cli, target: StartTarget, python: str
) -> None:
    calls = target("calls", python=python)
    for _ in range(10):
        [thread] = probing("backtrace", "-t", calls.pid, "--stop", "--json").expect(0).json["threads"]
        assert not thread["torn"]
        assert thread["frames"][-1]["func"] == "<module>"
    calls.expect_progress()


def test_without_it_nothing_is_held(probing: harness.Cli, target: StartTarget) -> None:
    assert probing("backtrace", "-t", target("busy").pid).expect(0).stderr == ""


def test_states_are_those_of_the_target_not_ours(probing: harness.Cli, target: StartTarget) -> None:
    sleeping = target("sleep")
    harness.wait_until(lambda: set(harness.thread_states(sleeping.pid).values()) == {"S"})
    assert "debugger" not in probing("backtrace", "-t", sleeping.pid, "--stop").expect(0).stdout
    sleeping.expect_unharmed()


def test_a_stopped_target_stays_stopped(probing: harness.Cli, target: StartTarget) -> None:
    busy = target("busy")
    os.kill(busy.pid, signal.SIGSTOP)
    harness.wait_until(lambda: set(harness.thread_states(busy.pid).values()) == {"T"})
    answer = probing("backtrace", "-t", busy.pid, "--stop").expect(0)
    assert "target_busy" in answer.stdout
    assert "stands still already" in answer.stderr
    assert set(harness.thread_states(busy.pid).values()) == {"T"}
    os.kill(busy.pid, signal.SIGCONT)
    busy.expect_progress()


def test_a_core_cannot_be_stopped(probing: harness.Cli) -> None:
    assert "--stop" in probing("backtrace", "--core", "core", "--stop").expect(2).stderr


def traced_threads(pid: int) -> list[str]:
    threads = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    return [status for status in threads if "TracerPid:\t0\n" not in status]


@pytest.mark.parametrize("delay_ms", [1, 3, 5, 10, 20, 40])
def test_a_killed_probing_leaves_nobody_stopped(
    probing: harness.Cli, target: StartTarget, delay_ms: int
) -> None:
    churning = target("churn")
    for _ in range(5):
        timeout = ["timeout", "--signal=KILL", f"{delay_ms / 1000}"]
        assert probing("backtrace", "-t", churning.pid, "--stop", prefix=timeout).code in (0, -9)
        # timeout does not wait for what it kills: the kernel lets the threads go when that has died.
        harness.wait_until(lambda: not traced_threads(churning.pid), 10, "no thread is traced")
    churning.expect_progress("allocations")
