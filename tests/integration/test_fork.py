"""Children of a probed process: nothing of ours comes with them by accident."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import harness
import pytest
from harness import Cli, Target, wait_until

StartTarget = Callable[..., Target]


def test_forked_workers_carry_nothing_of_ours(probing: Cli, target: StartTarget, python: str) -> None:
    # The warning of 3.12 about threads is a claim of its own, below.
    forking = target("fork", python=python, PYTHONWARNINGS="ignore::DeprecationWarning")
    probing("-t", forking.pid, "inject").expect(0)
    for _ in range(5):
        probing("-t", forking.pid, "eval", "1 + 1").expect(0)
    start = forking.report()["children"]
    wait_until(lambda: forking.report()["children"] > start + 30, 20, "children are born")
    forking.expect_unharmed()
    report = forking.report()
    assert (report["with_thread"], report["with_socket"], report["with_ring"]) == (0, 0, 0), report


FORKS = """
import logging, os, sys, time  # logging has functions that run within fork()
asked, forked = sys.argv[1:]
print("ready", flush=True)
number = 0
while True:
    number += 1
    while not os.path.exists("%s.%d" % (asked, number)):
        time.sleep(0.001)
    for _ in range(10):
        pid = os.fork()
        if pid == 0:
            os._exit(len(os.listdir("/proc/self/task")) - 1)
        assert os.waitpid(pid, 0)[1] == 0
    open("%s.%d" % (forked, number), "w").close()
"""


@pytest.mark.load_dependent(
    "the probe's thread has 5 ms to make way for a fork, also where others have the cores"
)
def test_python_does_not_warn_about_our_thread_when_the_job_forks(
    probing: Cli, python: str, tmp_path: Path
) -> None:
    """It counts them from 3.12 on. The probe's thread is away meanwhile, and back right after it."""
    asked, forked, said = tmp_path / "asked", tmp_path / "forked", tmp_path / "said"
    command = [str(harness.pythons()[python]), "-W", "always", "-c", FORKS, str(asked), str(forked)]
    with said.open("wb") as errors:
        job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
    try:
        assert job.stdout is not None and job.stdout.readline() == b"ready\n"
        for visit in range(3):
            probing("-t", job.pid, "inject").expect(0)
            # A row of python.memory is a thread of ours for a moment, at which Python would warn.
            probing("-t", job.pid, "config", "probing.python.memory_interval=1000").expect(0)
            harness.wait_for_hooks(probing, job.pid)
            wait_until(lambda: len(harness.thread_states(job.pid)) == 2, 10, "evaluations are over")
            for turn in range(5):
                number = visit * 5 + turn + 1
                Path(f"{asked}.{number}").touch()
                wait_until(lambda n=number: Path(f"{forked}.{n}").exists(), 20, "the job forks")
                assert len(harness.thread_states(job.pid)) == 2, "the probe is back"
                assert probing("-t", job.pid, "eval", "6 * 7").expect(0).stdout == "42\n"
                wait_until(lambda: len(harness.thread_states(job.pid)) == 2, 10, "the evaluation is over")
            probing("-t", job.pid, "eject").expect(0)
            wait_until(lambda: not harness.is_probed(job.pid), 10, "the library is gone")
        assert job.poll() is None
        assert said.read_text() == ""
    finally:
        job.kill()
        job.communicate()


def test_a_child_that_outlives_the_probe_does_not_keep_its_socket_open(
    probing: Cli, target: StartTarget
) -> None:
    parent = target("sleep")
    probing("-t", parent.pid, "inject").expect(0)
    code = "import os, time\npid = os.fork()\nif pid == 0:\n    time.sleep(300)\n    os._exit(0)\nprint(pid)"
    child = int(probing("-t", parent.pid, "eval", code).expect(0).stdout)
    try:
        probing("-t", parent.pid, "eject").expect(0)
        wait_until(lambda: harness.probe_socket(parent.pid) is None, 30, "the socket is gone")
        assert not [link for link in harness.open_files(child).values() if link.startswith("socket:")]
        assert len(harness.thread_states(child)) == 1
    finally:
        os.kill(child, 9)


def test_a_child_that_runs_another_program_is_not_probed(probing: Cli, target: StartTarget) -> None:
    parent = target("sleep")
    probing("-t", parent.pid, "inject").expect(0)
    code = (
        "import subprocess, sys\n"
        "job = 'import time; print(1, flush=True); time.sleep(300)'\n"
        "child = subprocess.Popen([sys.executable, '-c', job], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid)"
    )
    child = int(probing("-t", parent.pid, "eval", code).expect(0).stdout)
    try:
        assert not harness.is_probed(child)
        assert "probing" not in " ".join(harness.open_files(child).values())
    finally:
        os.kill(child, 9)


def test_the_target_may_exec_another_program_while_probed(probing: Cli) -> None:
    """The new program starts clean and can be entered again."""
    new = "import time; print('new', flush=True); time.sleep(300)"
    old = (
        f"import os, sys, time; print('old', flush=True); sys.stdin.readline(); "
        f"os.execv({sys.executable!r}, [{sys.executable!r}, '-c', {new!r}])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", old], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdin is not None
    try:
        assert process.stdout.readline() == "old\n"
        probing("-t", process.pid, "inject").expect(0)
        process.stdin.write("go\n")
        process.stdin.flush()
        assert process.stdout.readline() == "new\n"
        assert "libprobing" not in Path(f"/proc/{process.pid}/maps").read_text()
        probing("-t", process.pid, "inject").expect(0)
        assert probing("-t", process.pid, "eval", "1 + 1").expect(0).stdout == "2\n"
    finally:
        process.kill()
        process.communicate()
