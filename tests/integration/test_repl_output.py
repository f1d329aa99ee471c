"""What evaluated code prints goes to whoever asked, while it runs; the job's own output is nobody else's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Cli, Target, pythons, version_of, wait_until, wanted_pythons
from terminal import PROMPT, Terminal

StartTarget = Callable[..., Target]
OpenRepl = Callable[..., Terminal]
VERSIONS = wanted_pythons(lambda one: version_of(one)[:2] in ((3, 6), (3, 8), (3, 12), (3, 13)))

# Each prints "mine"; all of it is the session's.
WAYS = (
    "print('mine')",
    "import sys; _ = sys.stderr.write('mine\\n')",
    "_ = sys.stdout.buffer.write(b'mine\\n')",
    "import os; _ = os.write(1, b'mine\\n')",
    "_ = os.system('echo mine')",
    "_ = os.system('echo mine >&2')",
    "import subprocess; _ = subprocess.call(['echo', 'mine'])",
    "_ = subprocess.call('echo mine >&2', shell=True)",
    "_ = subprocess.call(['echo', 'mine'], stdout=sys.stdout)",
    "_ = os.popen('echo mine >&2').close()",
    "_ = os.waitpid(os.fork() or [os.write(1, b'mine\\n'), vars(os)['_exit'](0)], 0)",
    "_ = os.waitpid(os.posix_spawn('/bin/echo', ['echo', 'mine'], {}), 0) if hasattr(os, 'posix_spawn') "
    "else print('mine')",
    "import threading; t = threading.Thread(target=print, args=('mine',)); t.start(); t.join()",
    "t = threading.Thread(target=os.write, args=(1, b'mine\\n')); t.start(); t.join()",
)


def start(probing: Cli, target: StartTarget, name: str = "writes", python: str | None = None) -> Target:
    job = target(name, python=python) if python else target(name)
    probing("-t", job.pid, "inject").expect(0)
    return job


def output_of(job: Target) -> list[str]:
    job.process.kill()
    assert job.process.stdout is not None
    return job.process.stdout.read().decode().splitlines()


@pytest.mark.parametrize("python", VERSIONS)
def test_nothing_that_is_evaluated_prints_into_the_job(
    probing: Cli, target: StartTarget, python: str
) -> None:
    job = start(probing, target, python=python)
    answer = probing("-t", job.pid, "repl", stdin="\n".join(WAYS) + "\n").expect(0)
    assert (answer.stdout + answer.stderr).split() == ["mine"] * len(WAYS)
    for way in ("import os; os.system('echo mine')", "print('mine')"):
        assert "mine" in probing("-t", job.pid, "eval", way).expect(0).stdout
    job.expect_progress()
    lines = output_of(job)
    assert lines
    assert not [line for line in lines if line != "raw" and not line.startswith("job ")]


def test_prints_of_the_job_are_not_shown(probing: Cli, target: StartTarget, repl: OpenRepl) -> None:
    job = start(probing, target)
    session = repl(job)
    session.ask("import time; time.sleep(0.1); print('over')", r"over\n>>> ")
    job.expect_progress()
    assert "job" not in session.seen
    assert "raw" not in session.seen


def test_functions_of_the_job_are_as_before(probing: Cli, target: StartTarget) -> None:
    job = start(probing, target)
    code = "import os, posix; [type(f).__name__ for f in (os.write, posix.write, os._exit, os.kill, os.fork)]"
    before = probing("-t", job.pid, "eval", code).expect(0).stdout
    assert "function" in before, "while it runs they are ours"
    thread = (
        "import threading, time, __main__\n"
        "def look():\n"
        "    time.sleep(0.1)\n"
        "    __main__.seen = type(os.write).__name__, type(os._exit).__name__\n"
        "import os\n"
        "threading.Thread(target=look, daemon=True).start()\n"
    )
    probing("-t", job.pid, "eval", thread).expect(0)
    kinds = "('builtin_function_or_method', 'builtin_function_or_method')\n"
    wait_until(lambda: probing("-t", job.pid, "eval", "seen").stdout == kinds, 10, "put back")


@pytest.mark.parametrize("python", VERSIONS)
def test_nothing_is_foreign_in_the_job_after_eject(
    probing: Cli, target: StartTarget, terminal: Callable[..., Terminal], tmp_path: Path, python: str
) -> None:
    """Also when code is evaluated in that moment."""
    job = start(probing, target, python=python)
    begun = tmp_path / "begun"
    session = terminal(PROMPT, "-t", job.pid, "repl")
    session.send(f"open({str(begun)!r}, 'w').close() or [print(i) for i in iter(int, 1)]\r")
    wait_until(begun.exists, 20, "it is evaluated")
    wait_until(lambda: job.report()["foreign"] > 0, 20, "the job can see it")
    probing("-t", job.pid, "eject").expect(0)
    wait_until(lambda: job.report()["foreign"] == 0, 20, "all is the job's own again")
    if not python.endswith("t"):  # without a GIL nothing tells when the last thread has left our code
        assert "libprobing" not in Path(f"/proc/{job.pid}/maps").read_text()
    job.expect_progress()


@pytest.mark.parametrize("python", VERSIONS)
def test_a_thread_that_was_started_outlives_the_probe(probing: Cli, target: StartTarget, python: str) -> None:
    """It prints at the prompt while its line is evaluated, and then belongs to the job."""
    job = start(probing, target, python=python)
    lines = (
        "import __main__, threading, time; go_on = threading.Event(); __main__.thread_loops = 0",
        "def loop():",
        "    print('mine'); go_on.set()",
        "    while True: print('job thread'); __main__.thread_loops += 1; time.sleep(0.05)",
        "",
        "threading.Thread(target=loop, daemon=True).start(); _ = go_on.wait()",
    )
    printed = probing("-t", job.pid, "repl", stdin="\n".join(lines) + "\n").expect(0).stdout
    assert printed.startswith("mine\n")
    probing("-t", job.pid, "eject").expect(0)
    if not python.endswith("t"):
        assert "libprobing" not in Path(f"/proc/{job.pid}/maps").read_text()
    probing("-t", job.pid, "inject").expect(0)
    loops = [int(probing("-t", job.pid, "eval", "thread_loops").expect(0).stdout)]
    wait_until(
        lambda: int(probing("-t", job.pid, "eval", "thread_loops").stdout) > loops[0], 10, "it goes on"
    )
    job.expect_progress()  # which writes out what is buffered
    lines_of_job = output_of(job)
    assert "job thread" in lines_of_job
    assert "mine" not in lines_of_job


@pytest.mark.parametrize("python", VERSIONS)
def test_an_evaluation_imports_nothing_by_itself(probing: Cli, target: StartTarget, python: str) -> None:
    job = target("writes", python=python)
    job.expect_progress()
    before = job.report()["modules"]
    probing("-t", job.pid, "inject").expect(0)
    probing("-t", job.pid, "eval", "1").expect(0)
    probing("-t", job.pid, "repl", stdin="1\n%frames\nnumber?\n").expect(0)
    job.expect_progress()
    assert job.report()["modules"] == before > 0


def test_output_comes_while_the_code_runs(
    probing: Cli, target: StartTarget, repl: OpenRepl, tmp_path: Path
) -> None:
    go_on = tmp_path / "go_on"
    session = repl(start(probing, target, "busy"))
    session.ask("import os, time", PROMPT)
    wait = f"while not os.path.exists({str(go_on)!r}): time.sleep(0.01)"
    session.send(f"\x1b[200~print('first')\nos.system('echo second')\n{wait}\n\nprint('third')\n\x1b[201~\r")
    session.expect(r"\nfirst\n")
    session.expect(r"second\n")
    assert "\nthird\n" not in session.seen
    go_on.touch()
    session.expect(r"third\n>>> ")


def test_fifty_megabytes_are_cut_with_a_note(probing: Cli, target: StartTarget, repl: OpenRepl) -> None:
    job = start(probing, target, "busy")
    session = repl(job)
    session.ask("print('x' * 50000000)", "output was cut at probing.eval.max_output")
    session.expect(PROMPT)
    assert session.seen.count("x") < 2_000_000
    session.ask("import os; _ = os.system('yes | head -c 50000000')", "output was cut")
    session.expect(PROMPT)
    session.ask("6 * 7", r"42\n>>> ")
    job.expect_progress()


def test_a_process_that_is_left_running_is_not_in_the_way(probing: Cli, target: StartTarget) -> None:
    job = start(probing, target)
    lines = "import subprocess\np = subprocess.Popen('sleep 0.3; echo late; exit 7', shell=True)\np.poll()\n"
    probing("-t", job.pid, "repl", "--session", "left", stdin=lines).expect(0)
    ended = "p.wait()\n"
    assert probing("-t", job.pid, "repl", "--session", "left", stdin=ended).expect(0).stdout.strip() == "7"
    assert "late" not in output_of(job)


def test_ipython_is_used_when_it_is_there_and_wanted(
    probing: Cli, target: StartTarget, repl: OpenRepl
) -> None:
    job = start(probing, target, "busy")
    if probing("-t", job.pid, "eval", "import importlib.util as u; u.find_spec('IPython')").stdout == "":
        pytest.skip("this Python has no IPython")
    session = repl(job, "--ipython")
    session.ask("6 * 7", r"Out\[1\]: 42\n>>> ")
    session.ask("_ + MASK * 0", r"Out\[2\]: 42")
    session.ask("%timeit -n1 -r1 block(1)", r"per loop")
    session.ask("for i in range(2):", r"\.\.\. ")
    session.send("print('line', i)\r")
    session.expect(r"\.\.\. ")
    session.send("\r")
    session.expect("line 0\nline 1\n")
    session.ask("1 / 0", "ZeroDivisionError")
    main = "import __main__, builtins; print(__main__.MASK > 0, hasattr(builtins, 'get_ipython'))"
    assert probing("-t", job.pid, "eval", main).expect(0).stdout == "True False\n"
    job.expect_progress()


def test_ipython_that_is_not_there_is_said(probing: Cli, target: StartTarget) -> None:
    without = next((python for python in pythons() if version_of(python)[:2] == (3, 8)), None)
    if without is None:
        pytest.skip("there is no Python 3.8, which has no IPython here")
    job = start(probing, target, "busy", without)
    answer = probing("-t", job.pid, "repl", "--ipython", stdin="1\n")
    assert answer.code == 1
    assert "has no IPython" in answer.stderr
