"""Post mortem: the stacks in a core file are what Python said about itself while it lived."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest

StartTarget = Callable[..., harness.Target]


def frames(thread: dict[str, Any]) -> list[list[Any]]:
    return [[frame["func"], frame["file"], frame["lineno"]] for frame in thread["frames"]]


def make_core(pid: int, folder: Path) -> Path:
    """The core of a process that goes on."""
    if shutil.which("gcore") is None:
        pytest.skip("no gcore: install gdb")
    command = ["timeout", "60", "gcore", "-o", folder / "core", str(pid)]
    subprocess.run(command, check=True, capture_output=True)
    return folder / f"core.{pid}"


@pytest.fixture
def dumped(target: StartTarget, tmp_path: Path) -> Callable[..., tuple[dict[str, Any], Path]]:
    """Starts target_stacks.py; returns what it says about itself and its core file."""

    def dump(scenario: str, **options: Any) -> tuple[dict[str, Any], Path]:
        path = tmp_path / "truth.json"
        started = target("stacks", scenario, path, **options)
        return json.loads(path.read_text()), make_core(started.pid, tmp_path)

    return dump


def expect_truth(seen: dict[str, Any], truth: dict[str, Any]) -> None:
    assert seen["pid"] == truth["pid"]
    assert seen["python"] == truth["version"]
    main, *others = seen["threads"]
    assert main["tid"] == truth["pid"], "the main thread comes first"
    assert frames(main) == truth["threads"][0]["frames"]
    assert sorted(map(frames, others)) == sorted(thread["frames"] for thread in truth["threads"][1:])
    assert all(thread["tid"] > 0 for thread in seen["threads"])
    assert {(thread["name"], thread["state"]) for thread in seen["threads"]} == {(None, None)}


@pytest.mark.parametrize("scenario", ["threads", "non_ascii"])
def test_a_core_shows_what_python_said(
    probing: harness.Cli, dumped: Callable[..., Any], python: str, scenario: str
) -> None:
    if scenario == "threads" and harness.is_unpacked(python):
        pytest.skip("gcore leaves out stacks with the guard pages of its glibc, 2.42 and newer")
    truth, core = dumped(scenario, python=python)
    expect_truth(probing("backtrace", "--core", core, "--json").expect(0).json, truth)


def test_threads_have_the_ids_they_had(probing: harness.Cli, dumped: Callable[..., Any], python: str) -> None:
    truth, core = dumped("threads", python=python)
    seen = probing("backtrace", "--core", core, "--json").expect(0).json["threads"]
    assert {thread["tid"] for thread in seen} == set(harness.thread_states(truth["pid"]))


def test_a_core_of_the_kernel_leaves_out_what_is_in_files(
    probing: harness.Cli, tmp_path: Path, python: str
) -> None:
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern.startswith("|") or "/" in pattern:
        pytest.skip(f"the kernel writes cores elsewhere: {pattern}")
    truth_path = tmp_path / "truth.json"
    command = [harness.pythons()[python], harness.TARGETS / "target_stacks.py", "threads", truth_path]
    process = subprocess.Popen(
        ["prlimit", "--core=unlimited", *command],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        env=harness.clean_environment(),
    )
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    os.kill(process.pid, signal.SIGABRT)
    process.communicate(timeout=30)
    cores = list(tmp_path.glob("core*"))
    assert len(cores) == 1, f"one core file of {python}"
    truth = json.loads(truth_path.read_text())
    seen = probing("backtrace", "--core", cores[0], "--json").expect(0)
    expect_truth(seen.json, truth)
    assert seen.json["signal"] == f"killed by SIGABRT, sent by process {os.getpid()}"
    assert "killed by SIGABRT" in seen.stderr


def test_people_read_it_with_the_names_python_knew_and_without_states(
    probing: harness.Cli, dumped: Callable[..., Any]
) -> None:
    truth, core = dumped("plain")
    lines = probing("bt", "--core", core).expect(0).stdout.splitlines()
    assert re.fullmatch(rf'Thread {truth["pid"]} "MainThread"( \(holds the GIL\))?', lines[0])
    assert lines[1].startswith("    rendezvous (")


def test_one_thread_of_a_core(probing: harness.Cli, dumped: Callable[..., Any]) -> None:
    truth, core = dumped("threads")
    tid = truth["threads"][1]["tid"]
    seen = probing("bt", "--core", core, "--tid", tid, "--json").expect(0).json["threads"]
    assert [thread["tid"] for thread in seen] == [tid]
    assert "has no thread 1" in probing("bt", "--core", core, "--tid", 1).expect(1).stderr


def test_the_program_may_be_elsewhere_by_now(
    probing: harness.Cli, dumped: Callable[..., Any], tmp_path: Path
) -> None:
    truth, core = dumped("plain")
    program = tmp_path / "moved"
    shutil.copy2(os.path.realpath(f"/proc/{truth['pid']}/exe"), program)
    expect_truth(probing("backtrace", "--core", core, program, "--json").expect(0).json, truth)


@pytest.mark.parametrize("layout", ["flat", "by build-id"])
def test_a_folder_has_the_files_wherever_they_are_in_it(
    probing: harness.Cli, dumped: Callable[..., Any], tmp_path: Path, python: str, layout: str
) -> None:
    if harness.is_unpacked(python):
        pytest.skip("gcore leaves out stacks with the guard pages of its glibc, 2.42 and newer")
    truth, core = dumped("threads", python=python)
    folder = tmp_path / "files"
    folder.mkdir()
    mapped = {line.split()[-1] for line in Path(f"/proc/{truth['pid']}/maps").read_text().splitlines()}
    for number, path in enumerate(sorted(path for path in mapped if os.path.isfile(path))):
        if layout == "flat":
            shutil.copy2(path, folder / os.path.basename(path))
        else:
            (folder / f"{number:02x}").mkdir()
            shutil.copy2(path, folder / f"{number:02x}/executable")
    answer = probing("backtrace", "--core", core, folder, "--json").expect(0)
    expect_truth(answer.json, truth)


def test_a_truncated_core_is_called_so(probing: harness.Cli, dumped: Callable[..., Any]) -> None:
    _, core = dumped("plain")
    size = core.stat().st_size
    for part in (0.9, 0.5, 0.1, 0.01, 0):
        os.truncate(core, int(size * part))
        answer = probing("backtrace", "--core", core)
        assert answer.code in (0, 1), answer
        assert "truncated" in answer.stderr or "is not a core file" in answer.stderr, answer


def test_a_core_without_python_is_called_so(
    probing: harness.Cli, target: StartTarget, tmp_path: Path
) -> None:
    core = make_core(target("blocked", "poll", c=True).pid, tmp_path)
    stderr = probing("backtrace", "--core", core).expect(1).stderr
    assert "no Python interpreter" in stderr
    assert "blocked" in stderr, "it says whose core it is"


def test_what_is_no_core_is_refused(probing: harness.Cli, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("not a core\n" * 100)
    assert "is not a core file" in probing("backtrace", "--core", text).expect(1).stderr
    assert "is not a core file" in probing("backtrace", "--core", probing.bin / "probing").expect(1).stderr
    assert "there is no file" in probing("backtrace", "--core", tmp_path / "none").expect(2).stderr
    assert "not a regular file" in probing("backtrace", "--core", tmp_path).expect(1).stderr


def test_a_core_takes_the_place_of_the_target(probing: harness.Cli) -> None:
    assert "not both" in probing("backtrace", "-t", os.getpid(), "--core", "core").expect(2).stderr
    assert "needs a target" in probing("backtrace").expect(2).stderr


# ── with native frames and variables ─────────────────────────────────────────────────────────


def names(thread: dict[str, Any]) -> list[str]:
    return [f"{frame['frame_type'].lower()}:{frame['func']}" for frame in thread["frames"]]


def test_a_core_has_native_frames_where_the_live_process_had_them(
    probing: harness.Cli, target: StartTarget, tmp_path: Path, python: str
) -> None:
    pid = target("sleep", python=python).pid
    live = probing("backtrace", "-t", pid, "--native", "--json").expect(0).json["threads"]
    core = make_core(pid, tmp_path)
    dead = probing("backtrace", "--core", core, "--native", "--json").expect(0).json["threads"]
    assert [thread["merged"] for thread in dead] == [True] * len(dead)
    assert names(dead[0])[-1] == names(live[0])[-1] == "native:_start"
    assert "python:<module>" in names(dead[0])
    assert any(name.startswith("native:") and "sleep" in name for name in names(dead[0])), names(dead[0])


def test_the_core_of_a_c_program_has_its_stacks(
    probing: harness.Cli, target: StartTarget, tmp_path: Path
) -> None:
    core = make_core(target("native_threads", c=True).pid, tmp_path)
    answer = probing("backtrace", "--core", core, "--native", "--json").expect(0)
    assert "native frames only" in answer.stderr
    seen = [names(thread) for thread in answer.json["threads"]]
    assert len(seen) == 3
    for function in ("sleep_long", "wait_for_ever", "compute"):
        assert any(f"native:{function}" in stack for stack in seen), seen


def test_a_core_has_the_variables_of_its_frames(
    probing: harness.Cli, target: StartTarget, tmp_path: Path
) -> None:
    pid = target("locals", tmp_path / "truth.json").pid
    live = probing("backtrace", "-t", pid, "--locals", "--json").expect(0).json["threads"]
    core = make_core(pid, tmp_path)
    dead = probing("backtrace", "--core", core, "--locals", "--json").expect(0).json["threads"]

    def of_outer_frames(threads: list[dict[str, Any]]) -> list[Any]:
        return [frame.get("locals") for frame in threads[0]["frames"]][1:]

    assert of_outer_frames(dead) == of_outer_frames(live)
    assert any(of_outer_frames(dead))


def test_nothing_is_stopped_in_a_core(probing: harness.Cli) -> None:
    assert "--stop is for a live process" in probing("backtrace", "--core", "core", "--stop").expect(2).stderr
