"""Native frames from outside, with the Python frames where they belong."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest

StartTarget = Callable[..., harness.Target]


def backtrace(probing: harness.Cli, pid: int, *arguments: object) -> list[dict[str, Any]]:
    answer = probing("backtrace", "-t", pid, "--native", "--json", *arguments).expect(0).json
    for thread in answer["threads"]:
        assert thread["merged"] is not False, thread
    return answer["threads"]


def main_at_rest(probing: harness.Cli, pid: int) -> dict[str, Any]:
    """The only thread, once it waits where the target wants it to: not while it still says so."""

    def look() -> Any:
        [main] = backtrace(probing, pid)
        return None if re.search(r"python:\S*ready", " ".join(names(main))) else main

    return harness.wait_until(look, what="the target waits")


def names(thread: dict[str, Any]) -> list[str]:
    """Functions, innermost first, each with the kind of its frame: "python:main", "native:read"."""
    return [f"{frame['frame_type'].lower()}:{frame['func']}" for frame in thread["frames"]]


def assert_in_order(thread: dict[str, Any], *patterns: str) -> None:
    """Each pattern matches a frame, further out than the one before."""
    left = iter(names(thread))
    for pattern in patterns:
        assert any(re.fullmatch(pattern, name) for name in left), (pattern, names(thread))


def local(python: str, pattern: str) -> str:
    """A C function of the interpreter that only its symbol table names. Debian's are stripped."""
    is_debians = harness.is_unpacked(python) or harness.pythons()[python].resolve().parent == Path("/usr/bin")
    return "native:None" if is_debians else f"native:{pattern}"


def test_sorted_stands_between_its_key_function_and_its_caller(
    probing: harness.Cli, target: StartTarget, python: str
) -> None:
    main = main_at_rest(probing, target("callbacks", "SORTED", python=python).pid)
    assert_in_order(
        main,
        "native:.*read.*",
        "python:innermost",
        "python:inner_of_key",
        "python:key",
        local(python, "(list_?sort|builtin_sorted).*"),
        "python:sort",
        "python:<module>",
        local(python, "_start"),
    )


def test_a_callback_of_ctypes_stands_above_the_c_function_that_made_it(
    probing: harness.Cli, target: StartTarget, python: str
) -> None:
    main = main_at_rest(probing, target("callbacks", "QSORT", python=python).pid)
    assert_in_order(
        main, "python:innermost", "python:compare", "native:qsort.*", "python:quick_sort", "python:<module>"
    )


def test_sleep_is_seen_down_to_the_system_call(
    probing: harness.Cli, target: StartTarget, python: str
) -> None:
    main = main_at_rest(probing, target("sleep", python=python).pid)
    assert_in_order(
        main, "native:(.*nanosleep|.*select).*", local(python, "(time_sleep|pysleep).*"), "python:<module>"
    )


def test_the_holder_of_the_gil_is_shown_in_c(probing: harness.Cli, target: StartTarget, python: str) -> None:
    if not harness.has_gil(python):
        pytest.skip("nobody holds it")
    held = target("gil_held", python=python)

    def holder(threads: list[dict[str, Any]]) -> Any:
        found = [thread for thread in threads if thread["has_gil"]]
        return found[0] if found and "native:sleep" in names(found[0]) else None

    def is_asleep() -> bool:  # until then its threads move, and so may what is read of them
        read = probing("backtrace", "-t", held.pid, "--native", "--json").expect(0).json["threads"]
        return holder(read) is not None

    harness.wait_until(is_asleep, what="the thread that sleeps in C is shown")
    thread = holder(backtrace(probing, held.pid))
    assert thread is not None
    assert_in_order(thread, "native:.*nanosleep.*", "native:sleep", "python:hold_for_ever", "python:.*run")


def test_stacks_of_a_program_that_never_rests_are_merged(
    probing: harness.Cli, target: StartTarget, python: str
) -> None:
    spinning = target("callbacks", "SPIN", python=python)
    for _ in range(20):
        [main] = backtrace(probing, spinning.pid)
        assert_in_order(main, "python:spin", "python:<module>", "native:_start")
        if "python:key" in names(main):
            assert_in_order(main, "python:key", "python:sort", "python:spin")
        if "python:compare" in names(main):
            assert_in_order(main, "python:compare", "native:qsort.*", "python:quick_sort", "python:spin")
    spinning.expect_progress()


def test_threads_that_python_does_not_know_are_shown_with_all(
    probing: harness.Cli, target: StartTarget
) -> None:
    started = target("native_thread")
    assert len(backtrace(probing, started.pid)) == 1
    other = [thread for thread in backtrace(probing, started.pid, "--all") if not thread["has_python"]]
    assert len(other) == 1
    assert_in_order(other[0], "native:.*nanosleep.*", "native:sleep")
    assert all(frame["frame_type"] == "Native" for frame in other[0]["frames"])


def test_a_program_without_python_has_native_stacks_and_a_note(
    probing: harness.Cli, target: StartTarget
) -> None:
    started = target("native_threads", c=True)
    at_rest = {started.pid: "S"}
    harness.wait_until(lambda: at_rest.items() <= harness.thread_states(started.pid).items())
    answer = probing("backtrace", "-t", started.pid, "--native", "--json").expect(0)
    assert "native frames only" in answer.stderr
    threads = {thread["tid"]: thread for thread in answer.json["threads"]}
    assert len(threads) == 3
    assert_in_order(threads.pop(started.pid), "native:pause", "native:sleep_long", "native:main")
    stacks = sorted(
        (names(thread) for thread in threads.values()), key=lambda stack: "native:compute" in stack
    )
    assert stacks[0][-4:-2] == ["native:wait_for_ever", "native:waiting_thread"]
    assert stacks[1][:2] == ["native:compute", "native:computing_thread"]
    started.expect_progress()


def test_a_stopped_process_is_read_and_stays_stopped(probing: harness.Cli, target: StartTarget) -> None:
    spinning = target("callbacks", "SPIN")
    os.kill(spinning.pid, signal.SIGSTOP)
    try:
        harness.wait_until(lambda: "T" in harness.thread_states(spinning.pid).values())
        [main] = backtrace(probing, spinning.pid)
        assert_in_order(main, "python:spin", "native:_start")
        assert harness.thread_states(spinning.pid) == {spinning.pid: "T"}
    finally:
        os.kill(spinning.pid, signal.SIGCONT)
    spinning.expect_progress()


@pytest.mark.parametrize("how", ["read", "nanosleep", "futex", "epoll", "poll", "recv"])
def test_looking_ends_no_system_call_early(probing: harness.Cli, target: StartTarget, how: str) -> None:
    blocked = target("blocked", how, c=True)
    for _ in range(20):
        probing("backtrace", "-t", blocked.pid, "--native").expect(0)
    blocked.expect_unharmed()


def test_text_shows_address_function_and_file(probing: harness.Cli, target: StartTarget) -> None:
    started = target("callbacks", "QSORT")
    main_at_rest(probing, started.pid)
    text = probing("backtrace", "-t", started.pid, "--native").expect(0).stdout
    lines = text.splitlines()[1:]
    native = [line for line in lines if line.startswith("    0x")]
    assert any(
        re.fullmatch(r"    0x[0-9a-f]+ qsort\w*\+0x[0-9a-f]+ \(libc\.so\.6\)", line) for line in native
    )
    assert any(re.match(r"    compare \(.*target_callbacks\.py:\d+\)", line) for line in lines)
    assert not any("_PyEval_EvalFrameDefault" in line for line in lines), "replaced by the Python frames"
    assert max(map(len, native)) <= 110


def test_native_frames_are_rows_where_they_are_asked_for(
    probing: harness.Cli, target: StartTarget, python: str
) -> None:
    pid = target("callbacks", "SORTED", python=python).pid
    main_at_rest(probing, pid)
    rows = harness.rows(probing, "SELECT * FROM python.native_stacks WHERE tid = pid ORDER BY depth", pid)
    assert [row["depth"] for row in rows] == list(range(len(rows)))
    frames = [{"frame_type": row["frame_type"], "func": row["func"]} for row in rows]
    assert_in_order(
        {"frames": frames},
        "native:.*read.*",
        "python:innermost",
        local(python, "(list_?sort|builtin_sorted).*"),
        "python:<module>",
    )
    for row in rows:
        assert row["merged"] is True and row["pid"] == pid
        is_python = row["frame_type"] == "Python"
        assert (row["lineno"] is not None, row["interpreter"]) == (is_python, 0 if is_python else None), row
    assert {row["file"] for row in rows if row["frame_type"] == "Native"} & {"libc.so.6"}
    plain = harness.rows(probing, "SELECT DISTINCT frame_type FROM python.stacks", pid)
    assert plain == [{"frame_type": "Python"}], "nothing is held for those who did not ask for it"


def test_threads_without_python_have_native_rows(probing: harness.Cli, target: StartTarget) -> None:
    pid = target("native_thread").pid
    sql = "SELECT tid, bool_or(frame_type = 'Python') AS has_python FROM python.native_stacks GROUP BY tid"
    rows = harness.rows(probing, sql, pid)
    assert {row["tid"] for row in rows} == set(harness.thread_states(pid))
    assert {row["has_python"] for row in rows} == {True, False}
