"""Profiles by asyncio task: `record --async`, `flamegraph --async`, `top --async`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import harness
import pytest
from harness import Cli, Target

StartTarget = Callable[..., Target]
NAMED = (3, 8)  # tasks have names


def collapsed(probing: Cli, pid: int, *options: object) -> dict[tuple[str, ...], int]:
    text = probing(
        "-t", pid, "record", "--async", "-d", 1, "-r", 100, "-f", "collapsed", "-o", "-", *options
    ).expect(0)
    stacks = {}
    for line in text.stdout.splitlines():
        stack, count = line.rsplit(" ", 1)
        names = tuple(re.sub(r" \(.*", "", name) for name in stack.split(";"))
        stacks[names] = stacks.get(names, 0) + int(count)
    return stacks


def expect_shares(started: Target, record: Callable[[], dict[tuple[str, ...], int]], heavy_task: str) -> None:
    before = started.report()
    stacks = record()
    after = started.report()
    heavy, light = (after[name] - before[name] for name in ("heavy", "light"))
    above = ("task serve", "serve")
    counts = {
        name: sum(n for stack, n in stacks.items() if f"task {name}" in stack)
        for name in (heavy_task, "light")
    }
    total = sum(counts.values())
    assert total > 50, stacks
    # Four standard deviations of so many samples, and the edges of the recording.
    assert counts[heavy_task] / total == pytest.approx(
        heavy / (heavy + light), abs=4 * 0.5 / total**0.5 + 0.03
    )
    # work() counts its turns in the report, whose functions are Python, too.
    working = {stack[: stack.index("work") + 1] for stack in stacks if "work" in stack}
    assert working == {
        (*above, f"task {heavy_task}", "heavy", "work"),
        (*above, "task light", "light", "work"),
    }, stacks


def test_a_task_is_below_those_that_wait_for_it_and_has_its_share(
    probing: Cli, target: StartTarget, python: str
) -> None:
    started = target("async", python=python)
    name = "heavy work" if harness.version_of(python) >= NAMED else "heavy"
    expect_shares(started, lambda: collapsed(probing, started.pid), name)
    started.expect_unharmed()


def test_tasks_of_uvloop_are_told_apart_too(probing: Cli, target: StartTarget) -> None:
    started = target("async", "uvloop")
    expect_shares(started, lambda: collapsed(probing, started.pid), "heavy work")


def test_tasks_that_wait_are_shown_when_idle_ones_are_asked_for(probing: Cli, target: StartTarget) -> None:
    started = target("async")
    stacks = collapsed(probing, started.pid, "--idle")
    sleeping = ("task serve", "serve", "task sleeper", "sleeper", "sleep")
    assert stacks[sleeping] == pytest.approx(100, abs=40), stacks
    assert not any("sleeper" in stack for stack in collapsed(probing, started.pid))
    # Each is a timeline of its own.
    text = probing("-t", started.pid, "record", "--async", "--idle", "-d", 1, "-o", "-").expect(0).stdout
    names = [profile["name"] for profile in json.loads(text)["profiles"]]
    assert any("task Task-" in name for name in names), names


def test_native_frames_stand_within_tasks(probing: Cli, target: StartTarget) -> None:
    started = target("async")
    stacks = collapsed(probing, started.pid, "--native")
    assert any(
        stack[:3] == ("task serve", "serve", "task heavy work") and "work" in stack for stack in stacks
    ), stacks


def test_top_ranks_tasks(probing: Cli, target: StartTarget) -> None:
    started = target("async")
    table = probing("-t", started.pid, "top", "--once", "--async").expect(0).stdout
    rows = {line.split(None, 2)[2].strip(): line.split() for line in table.splitlines() if "%" in line[:16]}
    assert float(rows["task heavy work"][1].rstrip("%")) > float(rows["task light"][1].rstrip("%")) > 0, table


def test_threads_without_an_event_loop_stay_as_they_are(probing: Cli, target: StartTarget) -> None:
    started = target("shares")
    assert all(stack[0] == "<module>" for stack in collapsed(probing, started.pid))
