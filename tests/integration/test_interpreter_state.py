"""What an interpreter does besides running frames: collecting garbage, running another interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import harness
import pytest

WITH_SUBINTERPRETERS = harness.wanted_pythons(lambda one: harness.version_of(one)[1] >= 8)


def test_the_thread_that_collects_garbage_is_named(
    probing: harness.Cli, target: Callable[..., harness.Target], python: str
) -> None:
    pid = target("collects", python=python).pid
    seen = probing("bt", "-t", pid, "--json").expect(0).json
    says = harness.version_of(python)[1] >= 7  # 3.6 keeps it in a variable without a name
    assert seen["collecting_garbage"] is (True if says else None)
    assert [thread["collecting_garbage"] for thread in seen["threads"]] == [says]
    text = probing("bt", "-t", pid).expect(0).stdout
    assert ("holds the GIL, collecting garbage)" in text.splitlines()[0]) is says


def test_a_thread_that_does_not_collect_is_not(probing: harness.Cli, busy: harness.Target) -> None:
    seen = probing("bt", "-t", busy.pid, "--json").expect(0).json
    assert not any(thread["collecting_garbage"] for thread in seen["threads"])


@pytest.fixture(params=WITH_SUBINTERPRETERS)
def nested(target: Callable[..., harness.Target], request: pytest.FixtureRequest) -> int:
    return target("subinterpreters", python=request.param).pid


def python_frames(thread: dict[str, Any]) -> list[tuple[str, int]]:
    return [
        (frame["func"], frame.get("interpreter", thread["interpreter"]))
        for frame in thread["frames"]
        if frame["frame_type"] == "Python"
    ]


def test_every_stack_says_of_which_interpreter_it_is(probing: harness.Cli, nested: int) -> None:
    seen = probing("bt", "-t", nested, "--json").expect(0).json
    assert sorted(python_frames(thread) for thread in seen["threads"]) == [
        [("enter", 0), ("<module>", 0)],
        [("inside", 1), ("<module>", 1)],
    ]
    text = probing("bt", "-t", nested).expect(0).stdout
    assert "interpreter 0)\n" in text and "interpreter 1)\n" in text
    rows = harness.rows(
        probing, "select func, interpreter from python.stacks order by interpreter, depth", nested
    )
    assert [(row["func"], row["interpreter"]) for row in rows] == [
        ("enter", 0),
        ("<module>", 0),
        ("inside", 1),
        ("<module>", 1),
    ]


def test_native_frames_are_merged_with_those_of_all_interpreters(probing: harness.Cli, nested: int) -> None:
    [thread] = probing("bt", "-t", nested, "--native", "--json").expect(0).json["threads"]
    assert thread["merged"] is True
    assert python_frames(thread) == [("inside", 1), ("<module>", 1), ("enter", 0), ("<module>", 0)]
    kinds = [frame["frame_type"] for frame in thread["frames"]]
    inner = [frame["func"] for frame in thread["frames"]].index("enter")
    assert "Native" in kinds[2:inner], "what runs the subinterpreter is between the two"
    text = probing("bt", "-t", nested, "--native").expect(0).stdout
    assert "[interpreter 1]" in text and "[interpreter 0]" in text


def test_a_profile_has_one_stack_of_all_interpreters_of_a_thread(probing: harness.Cli, nested: int) -> None:
    options = ("record", "-d", 0.3, "--idle", "-f", "collapsed", "-o", "-")
    text = probing("-t", nested, *options).expect(0).stdout
    [stack] = text.splitlines()  # once: it is one thread
    names = [name.partition(" (")[0] for name in stack.rpartition(" ")[0].split(";")]
    assert names == ["<module>", "enter", "interpreter 1", "<module>", "inside"]
    text = probing("-t", nested, *options, "--native").expect(0).stdout
    assert all(";interpreter 1;" in line for line in text.splitlines() if ";inside (" in line), text


def test_one_interpreter_is_not_mentioned(probing: harness.Cli, busy: harness.Target) -> None:
    assert "interpreter" not in probing("bt", "-t", busy.pid).expect(0).stdout
