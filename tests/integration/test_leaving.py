"""Leaving is exact: after `eject` the job is what it was, and it forks, execs, loads and ends as ever."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli, Target, wait_until

StartTarget = Callable[..., Target]


class Asked:
    """target_leaving.py and what it says about itself."""

    def __init__(self, target: StartTarget, python: str, folder: Path, **environment: str) -> None:
        self.ask = folder / "ask"
        self.number = 0
        self.job = target("leaving", python=python, ASK=str(self.ask), **environment)

    def __call__(self, what: str) -> Any:
        path = Path(f"{self.ask}.{self.number}")
        self.number += 1
        done = Path(f"{path}.done")
        path.with_suffix(".part").write_text(what)
        path.with_suffix(".part").rename(path)
        wait_until(lambda: done.exists() or not self.job.alive(), 30, f"the job answers {what}")
        assert done.exists(), (
            f"the job ended: {self.job.process.returncode} {self.job.stderr_path.read_text()}"
        )
        return json.loads(done.read_text())

    def end(self) -> None:
        self("end")
        assert self.job.process.wait(20) == 0, self.job.stderr_path.read_text()
        assert self.job.stderr_path.read_text() == ""


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What differs, in the fewest words."""
    found: dict[str, Any] = {}
    for name in before:
        old, new = before[name], after[name]
        if old == new:
            continue
        if isinstance(old, dict):
            keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
            found[name] = {key: (old.get(key), new.get(key)) for key in keys}
        else:
            found[name] = (old, new)
    return found


def visit(probing: Cli, pid: int) -> None:
    """All that asks something of the interpreter: evaluations that print, fail, start threads and processes,
    a session's helpers, live tables, log points, hooks."""
    probing("-t", pid, "inject").expect(0)
    harness.wait_for_hooks(probing, pid)
    probing("-t", pid, "eval", "import sys; print('out'); print('err', file=sys.stderr)").expect(0)
    assert probing("-t", pid, "eval", "1 / 0").code == 1
    started = "import threading\nt = threading.Thread(target=print, args=(1,))\nt.start()\nt.join()"
    probing("-t", pid, "eval", started).expect(0)
    probing("-t", pid, "eval", "import subprocess; subprocess.call(['true'])").expect(0)
    probing("-t", pid, "eval", "--frame", "0", "__name__").expect(0)
    assert probing("-t", pid, "eval", "--timeout", "0.1", "while True: pass").code == 5
    for table in ("python.threads", "python.imports", "python.modules"):
        probing("-t", pid, "query", f"SELECT count(*) FROM {table}").expect(0)
    probing("-t", pid, "eject").expect(0)


def left(pid: int) -> bool:
    return not harness.is_probed(pid)


def alone(pid: int) -> None:
    """A thread that was joined is in the kernel's list for a moment longer."""
    wait_until(lambda: len(harness.thread_states(pid)) == 1, 10, "one thread")


def without_known(found: dict[str, Any], python: str) -> dict[str, Any]:
    """Python itself cannot take these back; each is there once, however many visits come."""
    found = {name: dict(value) if isinstance(value, dict) else value for name, value in found.items()}
    found.get("modules", {}).pop("_ast", None)  # compile() of Python loads it, as for any code with a tree
    old, new = found.get("atexit", (0, 0))
    if new == old + 1 or harness.version_of(python) < (3, 8):  # left_behind.h: an empty function of ours
        found.pop("atexit", None)
    return {name: value for name, value in found.items() if value != {}}


def test_the_job_is_what_it_was_and_goes_on_as_ever(
    probing: Cli, target: StartTarget, python: str, tmp_path: Path
) -> None:
    if not harness.has_gil(python):
        pytest.skip("without a GIL the library stays, and eject says so")
    asked = Asked(target, python, tmp_path)
    alone(asked.job.pid)
    before = asked("state")
    for _ in range(3):
        visit(probing, asked.job.pid)
        wait_until(lambda: left(asked.job.pid), 10, "the library is gone")
        alone(asked.job.pid)
        assert without_known(differences(before, asked("state")), python) == {}
    asked("live")
    visit(probing, asked.job.pid)  # a forked, threaded job can be visited again
    asked("live")
    asked.end()


def test_a_job_that_was_only_entered_forks_afterwards(
    probing: Cli, target: StartTarget, python: str, tmp_path: Path
) -> None:
    """No evaluation: what the library itself registers with the C library is enough to kill at fork()."""
    asked = Asked(target, python, tmp_path)
    for _ in range(3):
        probing("-t", asked.job.pid, "inject").expect(0)
        probing("-t", asked.job.pid, "eject").expect(0)
        asked("live")
    asked.end()


REDIRECTS = """
import contextlib, io, json, sys, threading, time
go, done, where = sys.argv[1:4]
import os
before = (sys.stdout, sys.stderr, sorted(vars(sys.stdout)), sys.excepthook)
print("ready", flush=True)
rounds = 0
while not os.path.exists(go):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        print("of the job")
        time.sleep(0.003)
    assert "of the job\\n" == out.getvalue(), out.getvalue()
    for _ in range(6):
        assert sys.stdout is before[0] and sys.stderr is before[1]
        time.sleep(0.0005)
    rounds += 1
after = (sys.stdout, sys.stderr, sorted(vars(sys.stdout)), sys.excepthook)
same = all(a is b for a, b in zip(before[:2] + before[3:], after[:2] + after[3:])) and before[2] == after[2]
print(json.dumps([same, rounds]), flush=True)
"""


def test_a_job_that_redirects_its_output_gets_its_own_stream_back(
    probing: Cli, python: str, tmp_path: Path
) -> None:
    """contextlib.redirect_stdout keeps what sys.stdout is and puts it back: nothing of ours may be there."""
    go = tmp_path / "go"
    job = subprocess.Popen(
        [str(harness.pythons()[python]), "-c", REDIRECTS, str(go), "", ""],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=harness.clean_environment(),
    )
    assert job.stdout is not None
    try:
        assert job.stdout.readline() == "ready\n"
        probing("-t", job.pid, "inject").expect(0)
        for i in range(10):
            code = f"import time\nfor _ in range(4):\n    time.sleep(0.004)\n{i}"
            assert probing("-t", job.pid, "eval", code).expect(0).stdout == f"{i}\n"
        probing("-t", job.pid, "eject").expect(0)
        go.touch()
        stdout, stderr = job.communicate(timeout=20)
    finally:
        job.kill()
    assert stderr == ""
    same, rounds = json.loads(stdout)
    assert same and rounds > 10


# ── again and again ──────────────────────────────────────────────────────────────────────────

KINDS = ["busy", "sleeps", "waits", "allocates", "threads"]
LONGEST_STALL = 2.0
CYCLES = int(os.environ.get("PROBING_CYCLES", "0"))  # of every Python and kind together; 0: the short form
SHORT = 300


class Cycler:
    """Enters, evaluates, leaves and sees the job fork, through one connection to probingd: no process of ours
    is started for it, so that thousands take minutes."""

    def __init__(self, job: Target) -> None:
        self.job = job
        self.sent = 0
        self.longest = 0.0

    def children_after(self, count: int) -> None:
        """The job forks; the time it takes is what a stall of it is."""
        begun, start = time.monotonic(), self.job.report()["children"]
        while self.job.report()["children"] < start + count:
            assert self.job.alive(), f"{self.job.command} ended: {self.job.process.returncode}"
            assert time.monotonic() - begun < 30, f"{self.job.command} forks no more"
            time.sleep(0.0005)
        self.longest = max(self.longest, time.monotonic() - begun)

    def ask(self, route: str, **body: object) -> dict[str, Any]:
        answer = harness.ask_daemon("POST", route, {"target": self.job.pid, **body})
        assert "error" not in answer, (route, answer, self.job.process.poll())
        return answer

    def cycle(self, number: int) -> None:
        self.ask("inject")
        answer = self.ask("eval", code=f"{number} + 1")
        assert answer["value"] == str(number + 1), answer
        os.kill(self.job.pid, signal.SIGUSR1)
        self.sent += 1
        self.children_after(1)
        assert self.ask("eject").get("note", "") == ""
        wait_until(lambda: left(self.job.pid), 10, "the library is gone")
        self.children_after(1)
        wait_until(lambda: self.job.report()["signals"] == self.sent, 10, "no signal is lost")


def run_cycles(job: Target, count: int) -> None:
    cycler = Cycler(job)
    settled: tuple[int, int, int] | None = None
    for number in range(count):
        cycler.cycle(number)
        if number == min(20, count // 2):
            settled = size_of(job.pid)
    job.expect_unharmed()
    report = job.report()
    assert (report["failed"], report["eintr"], report["wrong"]) == (0, 0, 0), report
    assert settled is not None
    threads, files, memory_kb = size_of(job.pid)
    assert (threads, files) == settled[:2]
    assert memory_kb - settled[2] < 2048 + count, f"{settled[2]} → {memory_kb} KB in {count} cycles"
    assert cycler.longest < LONGEST_STALL, f"the job stalled for {cycler.longest:.1f} s"


def size_of(pid: int) -> tuple[int, int, int]:
    """Threads, descriptors, KB of memory. The least of some looks: what has grown stays, but the thread that
    has unmapped the library ends a moment later, and fork() of 3.12 and later opens a file."""
    threads, files = [], []
    for _ in range(20):
        threads.append(int(harness.proc_status(pid, "Threads")))
        files.append(len(harness.open_files(pid)))
        time.sleep(0.005)
    return min(threads), min(files), int(harness.proc_status(pid, "RssAnon").split()[0])


def test_cycles_of_entering_evaluating_leaving_and_forking(
    probing: Cli, target: StartTarget, python: str
) -> None:
    """300 over all Pythons and kinds of jobs; `make soak` does the thousands."""
    if not harness.has_gil(python):
        pytest.skip("without a GIL the library stays, and eject says so")
    probing("status").expect(0)  # there is a probingd
    each = -(-SHORT // (len(harness.python_ids()) * len(KINDS)))
    for kind in KINDS:
        job = target("cycles", kind, python=python, PYTHONWARNINGS="ignore::DeprecationWarning")
        run_cycles(job, each)
        job.kill()


@pytest.mark.soak
@pytest.mark.slow(7200)
@pytest.mark.parametrize("kind", KINDS)
def test_10000_cycles(probing: Cli, target: StartTarget, python: str, kind: str) -> None:
    if not harness.has_gil(python):
        pytest.skip("without a GIL the library stays, and eject says so")
    probing("status").expect(0)
    count = -(-(CYCLES or 10_000) // (len(harness.python_ids()) * len(KINDS)))
    run_cycles(target("cycles", kind, python=python, PYTHONWARNINGS="ignore::DeprecationWarning"), count)
