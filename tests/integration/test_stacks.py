"""Python stacks from outside are what Python itself says they are, line by line."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest

SCENARIOS = re.findall(
    r"^@scenario\n(?:async )?def (\w+)", (harness.TARGETS / "target_stacks.py").read_text(), re.M
)

StartTarget = Callable[..., harness.Target]
# nanosleep, clock_nanosleep
NANOSLEEP = ("101", "115") if platform.machine() == "aarch64" else ("35", "230")
Truth = dict[str, Any]


@pytest.fixture
def standing(target: StartTarget, tmp_path: Path) -> Callable[..., Truth]:
    """Starts target_stacks.py and returns what it says about itself, once it stands still."""

    def start(scenario: str, **options: Any) -> Truth:
        if scenario == "coroutine" and harness.version_of(options.get("python", "3.11")) < (3, 5):
            pytest.skip("this Python has no coroutines")
        path = tmp_path / f"truth-{scenario}.json"
        started = target("stacks", scenario, path, **options)
        return json.loads(path.read_text()) | {"target": started}

    return start


def frames(thread: dict[str, Any]) -> list[list[Any]]:
    return [[frame["func"], frame["file"], frame["lineno"]] for frame in thread["frames"]]


def backtrace(probing: harness.Cli, pid: int, *arguments: object) -> dict[str, Any]:
    return probing("backtrace", "-t", pid, "--json", *arguments).expect(0).json


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_frames_are_what_python_says(
    probing: harness.Cli, standing: Callable[..., Truth], python: str, scenario: str
) -> None:
    truth = standing(scenario, python=python)
    seen = backtrace(probing, truth["pid"])
    assert seen["python"] == truth["version"]
    assert [thread["torn"] for thread in seen["threads"]] == [False] * len(truth["threads"])
    main, *others = seen["threads"]
    assert main["tid"] == truth["pid"]
    assert frames(main) == truth["threads"][0]["frames"]
    expected_others = [thread["frames"] for thread in truth["threads"][1:]]
    assert sorted(map(frames, others)) == sorted(expected_others)


def test_threads_have_the_ids_of_the_kernel(
    probing: harness.Cli, standing: Callable[..., Truth], python: str
) -> None:
    truth = standing("threads", python=python)
    seen = backtrace(probing, truth["pid"])["threads"]
    tids = [thread["tid"] for thread in seen]
    assert sorted(tids) == sorted(harness.thread_states(truth["pid"]))
    assert tids[0] == truth["pid"], "the main thread comes first"
    if truth["threads"][0]["tid"] is not None:  # Python 3.8 knows them itself
        assert set(tids) == {thread["tid"] for thread in truth["threads"]}


def test_threads_have_the_names_python_gives_them(
    probing: harness.Cli, standing: Callable[..., Truth], python: str
) -> None:
    truth = standing("named_threads", python=python)
    seen = backtrace(probing, truth["pid"])["threads"]
    names = sorted(thread["name"] for thread in truth["threads"])
    assert sorted(thread["thread_name"] for thread in seen) == names
    assert seen[0]["thread_name"] == "MainThread"
    assert all(thread["name"] for thread in seen), "the kernel's names are there too"
    lines = probing("bt", "-t", truth["pid"]).expect(0).stdout.splitlines()
    assert sorted(re.findall(r'^Thread \d+ "(.*)"', "\n".join(lines), re.M)) == names


def test_the_holder_of_the_gil_is_named(probing: harness.Cli, target: StartTarget, python: str) -> None:
    if not harness.has_gil(python):
        pytest.skip("nobody holds it")
    held = target("gil_held", python=python)

    def holder_sleeps_in_c() -> int:
        """Until then it comes and goes, and with it the GIL."""
        for tid in harness.thread_states(held.pid):
            call = Path(f"/proc/{held.pid}/task/{tid}/syscall").read_text().split()[0]
            if tid != held.pid and held.report()["held"] and call in NANOSLEEP:
                return tid
        return 0

    tid = harness.wait_until(holder_sleeps_in_c, what="the thread that sleeps in C holds the GIL")
    seen = backtrace(probing, held.pid)
    [holder] = [thread for thread in seen["threads"] if thread["has_gil"]]
    assert holder["tid"] == seen["gil_holder"] == tid != held.pid
    assert holder["frames"][0]["func"] == "hold_for_ever"
    text = probing("bt", "-t", held.pid).expect(0).stdout
    assert [line.split()[1] for line in text.splitlines() if "holds the GIL" in line] == [str(tid)], text


def test_nobody_holds_the_gil_when_everybody_waits(
    probing: harness.Cli, standing: Callable[..., Truth], python: str
) -> None:
    pid = standing("threads", python=python)["pid"]
    harness.wait_until(lambda: set(harness.thread_states(pid).values()) == {"S"})
    seen = backtrace(probing, pid)
    assert seen["gil_holder"] is None
    assert not any(thread["has_gil"] for thread in seen["threads"])


def test_stacks_of_a_program_that_never_rests_are_possible_ones(
    probing: harness.Cli, target: StartTarget, python: str
) -> None:
    calls = target("calls", python=python)
    calls.expect_progress()
    source = (harness.TARGETS / "target_calls.py").read_text().splitlines()
    read = 0
    for _ in range(20):
        [thread] = backtrace(probing, calls.pid)["threads"]
        if thread["torn"]:
            assert thread["frames"] == []
            continue
        read += 1
        own = [frame for frame in thread["frames"] if frame["file"].endswith("target_calls.py")]
        names = [frame["func"] for frame in own]
        assert names[-2:] == ["loop", "<module>"]
        for callee, frame in zip(names, own[1:], strict=False):
            statement = " ".join(source[frame["lineno"] - 1 : frame["lineno"] + 1])
            assert re.search(rf"\b{callee}\b", statement), (callee, frame, thread["frames"])
    assert read >= 18, "it is read from its own CPU, where it does not run meanwhile"
    calls.expect_progress()


def test_reading_changes_nothing_in_the_target(probing: harness.Cli, standing: Callable[..., Truth]) -> None:
    truth = standing("threads")
    before = harness.Snapshot.of(truth["pid"])
    backtrace(probing, truth["pid"], "--all")
    assert harness.Snapshot.of(truth["pid"]) == before


def test_a_stopped_process_can_be_read(probing: harness.Cli, standing: Callable[..., Truth]) -> None:
    truth = standing("plain")
    os.kill(truth["pid"], signal.SIGSTOP)
    try:
        harness.wait_until(lambda: "T" in harness.thread_states(truth["pid"]).values())
        [thread] = backtrace(probing, truth["pid"])["threads"]
        assert thread["state"] == "stopped"
        assert frames(thread) == truth["threads"][0]["frames"]
    finally:
        os.kill(truth["pid"], signal.SIGCONT)


def test_text_is_one_header_per_thread_and_one_line_per_frame(
    probing: harness.Cli, standing: Callable[..., Truth]
) -> None:
    truth = standing("plain")
    harness.wait_until(lambda: set(harness.thread_states(truth["pid"]).values()) == {"S"})
    lines = probing("backtrace", "-t", truth["pid"]).expect(0).stdout.splitlines()
    assert re.fullmatch(rf'Thread {truth["pid"]} ".+" \(sleeping in read\)', lines[0])
    expected = truth["threads"][0]["frames"]
    assert len(lines) == 1 + len(expected)
    for line, (function, file, number) in zip(lines[1:], expected, strict=True):
        assert re.fullmatch(rf"    {re.escape(function)} \(.*{Path(file).name}:{number}\)", line)
        assert len(line) <= 80


def test_probe_dump_prints_the_same(probing: harness.Cli, standing: Callable[..., Truth]) -> None:
    pid = standing("decorator")["pid"]
    harness.wait_until(lambda: set(harness.thread_states(pid).values()) == {"S"})
    assert probing("--dump", pid, program="probe").expect(0).stdout == probing(pid, "bt").expect(0).stdout


def test_one_thread_can_be_chosen(probing: harness.Cli, standing: Callable[..., Truth]) -> None:
    pid = standing("threads")["pid"]
    tid = max(harness.thread_states(pid))
    seen = backtrace(probing, pid, "--tid", tid)["threads"]
    assert [thread["tid"] for thread in seen] == [tid]
    assert "has no thread 1\n" in probing("bt", "-t", pid, "--tid", 1).expect(1).stderr
    assert probing("bt", "-t", pid, "--tid", "x").expect(2).stdout == ""


def test_threads_without_python_are_shown_when_asked_for(probing: harness.Cli, target: StartTarget) -> None:
    native = target("native_thread")
    assert len(backtrace(probing, native.pid)["threads"]) == 1
    seen = backtrace(probing, native.pid, "--all")["threads"]
    assert [thread["has_python"] for thread in seen] == [True, False]
    assert "(not a Python thread)" in probing("bt", "-t", native.pid, "--all").expect(0).stdout


def test_a_process_without_python_is_refused(probing: harness.Cli, target: StartTarget) -> None:
    answer = probing("bt", "-t", target("wait", c=True).pid).expect(1)
    assert "no Python" in answer.stderr
    assert answer.stdout == ""


def test_no_such_process_is_exit_code_4(probing: harness.Cli) -> None:
    probing("bt", "-t", 4194300).expect(4)


def test_a_process_of_somebody_else_is_exit_code_3(
    public_probing: harness.Cli, standing: Callable[..., Truth]
) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to become somebody else")
    pid = standing("plain")["pid"]
    assert "owner" in public_probing.as_nobody("bt", "-t", pid).expect(3).stderr


def test_threads_in_a_pid_namespace_have_the_ids_seen_from_here(
    probing: harness.Cli, standing: Callable[..., Truth], python: str
) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to make a pid namespace")
    truth = standing("threads", python=python, prefix=["unshare", "--pid", "--fork", "--kill-child"])
    assert truth["pid"] == 1
    unshare = truth["target"].pid
    pid = int(Path(f"/proc/{unshare}/task/{unshare}/children").read_text())
    seen = backtrace(probing, pid)["threads"]
    assert {thread["tid"] for thread in seen} == set(harness.thread_states(pid))
    assert frames(seen[0]) == truth["threads"][0]["frames"]


def test_children_are_shown_also_those_of_a_shell(
    probing: harness.Cli, target: StartTarget, python: str
) -> None:
    shell = target("shares", python=python, prefix=["sh", "-c", '"$@"; exit 0', "sh"])
    answer = probing("-t", shell.pid, "backtrace", "--subprocesses").expect(0)
    (child,) = harness.children_of(shell.pid)
    assert answer.stdout.startswith(f"Process {child}: ")
    assert "target_shares.py" in answer.stdout
    assert "<module>" in answer.stdout
    (one,) = probing("-t", shell.pid, "backtrace", "--subprocesses", "--json").expect(0).json
    assert one["pid"] == child
    assert one["threads"]


def test_a_zombie_is_said_to_have_ended_and_its_parent_named(probing: harness.Cli) -> None:
    with subprocess.Popen(["true"]) as ended:
        harness.wait_until(lambda: harness.proc_status(ended.pid, "State").startswith("Z"), 10, "a zombie")
        answer = probing("-t", ended.pid, "backtrace")
    assert answer.code != 0
    assert "has ended (zombie)" in answer.stderr
    assert f"probing -t {os.getpid()} backtrace" in answer.stderr


def test_functions_of_the_probe_are_not_shown_unless_asked_for(
    probing: harness.Cli, busy: harness.Target
) -> None:
    """The code of somebody's eval is on a stack of the probe's own functions."""
    command = [str(harness.BIN / "probing"), "-t", str(busy.pid), "eval", "import time; time.sleep(60)"]
    evaluation = subprocess.Popen(command, env=harness.clean_environment(), stdout=subprocess.DEVNULL)
    try:

        def look() -> str | None:
            text = probing("backtrace", "-t", busy.pid, "--full").expect(0).stdout
            return text if "(<probing>:1)" in text else None

        assert "(<libprobing>:" in harness.wait_until(look)
        text = probing("backtrace", "-t", busy.pid).expect(0).stdout
        assert "(<probing>:1)" in text and "<libprobing>" not in text
        native = probing("backtrace", "-t", busy.pid, "--native").expect(0).stdout
        assert "(<probing>:1)" in native and "<libprobing>" not in native
        assert "<libprobing>" in probing("backtrace", "-t", busy.pid, "--json").expect(0).stdout
        options = ("record", "-d", 0.3, "--idle", "-f", "collapsed", "-o", "-")
        recorded = probing("-t", busy.pid, *options).expect(0).stdout
        assert "(<probing>:1)" in recorded and "<libprobing>" not in recorded
    finally:
        evaluation.kill()
        evaluation.wait()
