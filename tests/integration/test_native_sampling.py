"""Sampling with native frames: all threads, those without Python too, each stack in the right order."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import harness
import pytest
from harness import Cli, Target, ask_daemon, wait_until
from zygote import TORCH

StartTarget = Callable[..., Target]


def record(probing: Cli, pid: int, *arguments: object, seconds: float = 0.5, hz: int = 100) -> harness.Answer:
    command = ("-t", pid, "record", "--native", "-f", "collapsed", "-o", "-", "-d", seconds, "-r", hz)
    answer = probing(*command, *arguments, timeout=seconds + 50).expect(0)
    assert "did not fit together" not in answer.stderr
    return answer


def stacks(collapsed: str) -> dict[tuple[str, ...], int]:
    lines = [line.rsplit(" ", 1) for line in collapsed.splitlines()]
    return {tuple(frame.split(" (")[0] for frame in stack.split(";")): int(count) for stack, count in lines}


def test_python_and_native_frames_are_in_one_stack(probing: Cli, target: StartTarget, python: str) -> None:
    sleeper = target("sleep", python=python)
    seen = stacks(record(probing, sleeper.pid, "--idle").stdout)
    for stack in seen:
        module = stack.index("<module>")
        assert any("main" in name for name in stack[:module]), stack
        assert len(stack) > module + 1, "sleep() is a native function"
    sleeper.expect_unharmed()


def test_threads_without_python_are_sampled_too(probing: Cli, target: StartTarget) -> None:
    native = target("native_thread")
    answer = record(probing, native.pid, "--idle", "--threads")
    others = [stack for stack in stacks(answer.stdout) if not stack[0].startswith(f"thread {native.pid} ")]
    assert others and all("<module>" not in stack for stack in others), answer.stdout
    assert any("sleep" in stack[-1] for stack in others), answer.stdout
    native.expect_unharmed()


def test_a_process_without_python_can_be_recorded(probing: Cli, target: StartTarget) -> None:
    program = target("native_threads", c=True)
    running = lambda: list(harness.thread_states(program.pid).values()).count("R")  # noqa: E731
    wait_until(lambda: running() == 1, 30, "all but one wait")
    seen = stacks(record(probing, program.pid).stdout)
    assert seen and {stack[-1] for stack in seen} == {"compute"}, "the others wait"
    assert sum(seen.values()) == pytest.approx(50, abs=15)
    program.expect_unharmed()


def test_flamegraph_and_top_have_native_frames(probing: Cli, target: StartTarget) -> None:
    program = target("native_threads", c=True)
    command = ("-t", program.pid, "flamegraph", "--native", "-d", 0.3, "-o", "-")
    assert "compute (native_threads" in probing(*command).expect(0).stdout
    assert "compute" in probing("-t", program.pid, "top", "--native", "--once").expect(0).stdout


def test_the_daemon_samples_native_frames_when_told_to(probing: Cli, target: StartTarget) -> None:
    busy = target("shares")
    probing("-t", busy.pid, "config", "probing.sample_rate=0.02", "probing.sample_native=true").expect(0)

    def native_and_python() -> bool:
        answer = ask_daemon("GET", f"samples?target={busy.pid}")
        text = [" ".join(row["stack"]) for row in answer["folded"]]
        return any("hot (" in one and "main" in one.split("<module>")[0] for one in text)

    wait_until(native_and_python, 20)
    probing("-t", busy.pid, "config", "probing.sample_rate=0").expect(0)
    busy.expect_unharmed()


# ── PyTorch ──────────────────────────────────────────────────────────────────────────────────


needs_torch = pytest.mark.skipif(
    not TORCH.exists(), reason="needs torch in build/torch-venv (tools/install_deps.sh torch)"
)


def sample_torch(probing: Cli, target: StartTarget, seconds: float, hz: int) -> dict[str, Any]:
    training = target("torch_train", 2, python=str(TORCH))
    request = {"target": training.pid, "seconds": seconds, "hz": hz, "native": True}
    answer = ask_daemon("POST", "profile", request, timeout=seconds + 60)
    training.expect_unharmed()
    return answer


@needs_torch
@pytest.mark.slow(180)
def test_a_training_loop_is_sampled_without_a_failed_merge(probing: Cli, target: StartTarget) -> None:
    probing("list").expect(0)
    profile = sample_torch(probing, target, 6, 100)
    assert profile["lost"]["unmerged"] == 0, profile["lost"]
    names = {frame["func"] for frame in profile["frames"] if frame["kind"] == "native"}
    assert any("torch::autograd" in name for name in names), sorted(names)[:50]
    python = {frame["func"] for frame in profile["frames"] if frame["kind"] == "python"}
    assert {"step", "train"} <= {name.split(".")[-1] for name in python}
    mixed = [
        stack
        for stack in profile["stacks"]
        if {profile["frames"][frame]["kind"] for frame in stack} == {"python", "native"}
    ]
    assert mixed


@needs_torch
@pytest.mark.soak
@pytest.mark.slow(600)
def test_ten_thousand_samples_of_a_training_loop(probing: Cli, target: StartTarget) -> None:
    probing("list").expect(0)
    profile = sample_torch(probing, target, 120, 100)
    active = [
        weight
        for weight, on_cpu in zip(profile["samples"]["weight"], profile["samples"]["on_cpu"], strict=True)
        if on_cpu
    ]
    print(json.dumps({"active": sum(active), "taken": profile["samples_taken"], **profile["lost"]}))
    assert sum(active) >= 10_000
    assert profile["lost"]["unmerged"] == 0


def test_a_process_that_is_sampled_can_be_entered_meanwhile(probing: Cli, target: StartTarget) -> None:
    """Each sample holds a thread for a moment, and such a moment is no debugger."""
    busy = target("busy")
    command = [
        "-t",
        str(busy.pid),
        "record",
        "--native",
        "-f",
        "collapsed",
        "-o",
        "/dev/null",
        "-d",
        "60",
        "-r",
        "1000",
    ]
    recording = subprocess.Popen([probing.bin / "probing", *command], stderr=subprocess.DEVNULL)
    try:
        for _ in range(20):
            probing("-t", busy.pid, "inject").expect(0)
            probing("-t", busy.pid, "eject").expect(0)
    finally:
        recording.kill()
        recording.wait()
    busy.expect_unharmed()
