"""Stacks at odd times: what the suites of py-spy and pystack try beyond our other tests."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli
from test_core_files import make_core

StartTarget = Callable[..., harness.Target]
# In 3.8 and 3.9 a subinterpreter cannot make another one.
WITH_CHAINS = harness.wanted_pythons(lambda one: harness.version_of(one)[1] >= 10)


@pytest.mark.parametrize("how", [[], ["--native"]])
def test_threads_that_come_and_go_are_no_error(
    probing: Cli, target: StartTarget, python: str, how: list[str]
) -> None:
    started = target("odd_times", "reuse", python=python)
    seen = set()
    for _ in range(30):
        answer = probing("bt", "-t", started.pid, "--json", *how).expect(0).json
        functions = [[frame["func"] for frame in thread["frames"]] for thread in answer["threads"]]
        [main] = [names for names in functions if "reuse" in names]
        assert main[main.index("<module>") - 1] == "main"
        seen |= {name for names in functions for name in names if name}
    assert "short_lived" in seen
    started.expect_unharmed()


def test_a_handler_at_exit_has_a_stack(probing: Cli, target: StartTarget, python: str) -> None:
    started = target("odd_times", "exit_handler", python=python)
    [thread] = probing("bt", "-t", started.pid, "--json").expect(0).json["threads"]
    assert [frame["func"] for frame in thread["frames"]][-1] == "goodbye"


def test_an_interpreter_that_has_ended_is_said_to(
    probing: Cli, target: StartTarget, tmp_path: Path, python: str
) -> None:
    library = tmp_path / "liblate.so"
    source = harness.TARGETS / "library_late.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    started = target("odd_times", "finalized", library, python=python)
    answer = probing("bt", "-t", started.pid).expect(1)
    assert "does not run (it starts or ends)" in answer.stderr and "--native" in answer.stderr
    native = probing("bt", "-t", started.pid, "--native").expect(0)
    assert "wait_after_python" in native.stdout and "native frames only" in native.stderr


@pytest.mark.parametrize("python", WITH_CHAINS)
def test_chains_of_subinterpreters_in_two_threads_are_told_apart(
    probing: Cli, target: StartTarget, python: str
) -> None:
    started = target("odd_times", "chains", python=python)
    seen = probing("bt", "-t", started.pid, "--json").expect(0).json["threads"]
    by_interpreter: dict[int, list[Any]] = {}
    for thread in seen:
        names = [frame["func"] for frame in thread["frames"]]
        if thread["tid"] != started.pid and names:
            by_interpreter.setdefault(thread["interpreter"], []).append((thread["tid"], names))
    assert len(by_interpreter.pop(0)) == 2, "both threads began in the main one"
    assert len(by_interpreter) == 4 and all(len(stacks) == 1 for stacks in by_interpreter.values())
    tids: dict[int, set[str]] = {}
    for [(tid, names)] in by_interpreter.values():
        tids.setdefault(tid, set()).add(next(name for name in names if name.startswith("level_")))
    assert list(tids.values()) == [{"level_1", "level_2"}] * 2
    for thread in probing("bt", "-t", started.pid, "--native", "--json").expect(0).json["threads"]:
        if thread["tid"] == started.pid or not thread["has_python"]:
            continue
        # Before 3.12 no address of the C stack says which of the two inner ones called the other.
        assert thread["merged"] is (harness.version_of(python) >= (3, 12))
        order = [f["func"] for f in thread["frames"] if f["frame_type"] == "Python"]
        assert [name for name in order if name.startswith("level_")] == ["level_2", "level_1"]


def test_a_core_names_the_thread_that_collected_garbage(
    probing: Cli, target: StartTarget, tmp_path: Path, python: str
) -> None:
    core = make_core(target("collects", python=python).pid, tmp_path)
    seen = probing("bt", "--core", core, "--json").expect(0).json
    says = harness.version_of(python)[1] >= 7
    assert seen["collecting_garbage"] is (True if says else None)
    assert [thread["collecting_garbage"] for thread in seen["threads"]] == [says]


def test_nothing_of_ours_runs_in_a_python_that_has_no_main_module_yet(python: str, tmp_path: Path) -> None:
    """3.6 calls itself initialized from the first moment on, and its import system is gone through while it
    is made: a module that we import then ends the program."""
    library = tmp_path / "libslow.so"
    source = harness.TARGETS / "library_slow_start.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    code = """
import sys, time
deadline = time.monotonic() + 20
while "atexit" not in sys.modules and time.monotonic() < deadline:
    time.sleep(0.001)
names = list(sys.modules)
print(names.index("__main__") < names.index("atexit"))
"""
    done = subprocess.run(
        [harness.pythons()[python], "-I", "-S", "-c", code],
        env=harness.clean_environment() | {"LD_PRELOAD": f"{library}:{harness.BIN / 'libprobing.so'}"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
