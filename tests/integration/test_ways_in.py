"""Other ways in than ptrace, and targets that live somewhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import harness
import pytest
from harness import Cli, Target, wait_until
from users import User, uids

StartTarget = Callable[..., Target]


def expect_answer(probing: Cli, pid: int) -> None:
    wait_until(lambda: harness.probe_socket(pid) is not None, 10, f"process {pid} has a probe")
    assert probing("-t", pid, "eval", "6 * 7").expect(0).stdout == "42\n"


# ── LD_PRELOAD ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("library", ["libprobing.so", "libprobe.so"])
def test_a_preloaded_probe_answers(probing: Cli, target: StartTarget, library: str) -> None:
    busy = target("busy", LD_PRELOAD=str(harness.BIN / library))
    expect_answer(probing, busy.pid)
    busy.expect_progress()


def test_a_preloaded_probe_works_on_every_python(probing: Cli, target: StartTarget, python: str) -> None:
    busy = target("busy", python=python, LD_PRELOAD=str(harness.BIN / "libprobing.so"))
    expect_answer(probing, busy.pid)
    busy.expect_progress()


def test_a_preloaded_probe_leaves_other_programs_alone() -> None:
    """A shell script under LD_PRELOAD prints what it always prints, in every program it starts."""
    script = "ls / | wc -l; expr 6 \\* 7; env true; grep Threads /proc/self/status; sh -c 'exit 3'"
    alone = subprocess.run(["sh", "-c", script], capture_output=True, env=harness.clean_environment())
    preload = harness.clean_environment(LD_PRELOAD=str(harness.BIN / "libprobing.so"))
    with_us = subprocess.run(["sh", "-c", script], capture_output=True, env=preload)
    assert (with_us.returncode, with_us.stdout, with_us.stderr) == (3, alone.stdout, b"")


def test_probing_run_starts_a_program_under_the_probe(probing: Cli, tmp_path: Path) -> None:
    job = str(harness.TARGETS / "target_checksum.py")
    alone = subprocess.run([sys.executable, job, "50"], capture_output=True, text=True).stdout
    answer = probing("run", "--", sys.executable, job, "50").expect(0)
    assert answer.stdout == alone
    assert answer.stderr == ""


def test_probing_run_passes_the_exit_code_on(probing: Cli) -> None:
    assert probing("run", sys.executable, "-c", "import sys; sys.exit(7)").code == 7


def test_probing_run_does_not_probe_what_the_program_starts(probing: Cli) -> None:
    names = "import glob; print(*[open(name).read().strip() for name in glob.glob('/proc/self/task/*/comm')])"
    code = f"import subprocess, sys; subprocess.check_call([sys.executable, '-c', {names!r}]); {names}"
    answer = probing("run", "--", sys.executable, "-c", code).expect(0)
    child, program = answer.stdout.splitlines()
    assert len(child.split()) == 1, "the child has one thread"
    assert "probing" in program.split(), "the program has the probe's thread"
    assert answer.stderr == ""


# ── another mount namespace ──────────────────────────────────────────────────────────────────


READ_ONLY, FULL = "ro", "nr_inodes=1"  # without a free inode not even a socket can be made


def start_in_namespace(target: StartTarget, *mounts: str) -> Target:
    """A target that has its own mounts, as in a container."""
    if os.getuid() != 0:
        pytest.skip("only root can make a mount namespace here")
    script = "; ".join(["set -e", *mounts, 'exec "$@"'])
    return target("busy", prefix=["unshare", "--mount", "sh", "-c", script, "sh"])


def cover(place: Path, how: str) -> str:
    """Our directory in /tmp, /dev/shm or /var/tmp becomes useless; the rest of it stays, because the
    test itself lives there."""
    place.mkdir(mode=0o700, exist_ok=True)
    return f"mount -t tmpfs -o mode=700,{how} none {place}"


@pytest.mark.parametrize("how", [READ_ONLY, FULL])
@pytest.mark.parametrize("useless", [1, 2])
def test_a_full_or_read_only_tmp_is_no_obstacle(
    probing: Cli, target: StartTarget, how: str, useless: int
) -> None:
    places = harness.socket_directories(os.getuid())
    busy = start_in_namespace(target, *(cover(place, how) for place in places[:useless]))
    probing("-t", busy.pid, "inject").expect(0)
    assert probing("-t", busy.pid, "eval", "6 * 7").expect(0).stdout == "42\n"
    probing("-t", busy.pid, "eject").expect(0)
    busy.expect_progress()


@pytest.mark.parametrize("how", [READ_ONLY, FULL])
def test_no_place_for_a_socket_at_all_is_a_clear_error(probing: Cli, target: StartTarget, how: str) -> None:
    places = harness.socket_directories(os.getuid())
    busy = start_in_namespace(target, *(cover(place, how) for place in places))
    threads = set(harness.thread_states(busy.pid))
    answer = probing("-t", busy.pid, "inject")
    assert answer.code in (1, 3, 5), answer
    assert "/tmp" in answer.stderr
    busy.expect_progress()
    wait_until(lambda: set(harness.thread_states(busy.pid)) == threads, 30, "no thread is left behind")


def test_a_target_whose_root_has_nothing_of_ours(probing: Cli, target: StartTarget) -> None:
    """The library travels by memory: the target need not see the folder it comes from."""
    hidden = f"mount -t tmpfs none {harness.BIN}"
    busy = start_in_namespace(target, hidden)
    probing("-t", busy.pid, "inject").expect(0)
    assert probing("-t", busy.pid, "eval", "6 * 7").expect(0).stdout == "42\n"
    busy.expect_progress()


def test_a_target_in_its_own_pid_namespace(probing: Cli, target: StartTarget) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make a pid namespace here")
    outer = target("busy", prefix=["unshare", "--pid", "--fork", "--mount-proc"])
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
    pid = int(children[0])
    probing("-t", pid, "inject").expect(0)
    assert probing("-t", pid, "eval", "import os; os.getpid()").expect(0).stdout == "1\n"
    probing("-t", pid, "eject").expect(0)
    outer.expect_progress()
    os.kill(pid, 9)
    outer.kill()


def test_a_job_that_may_run_only_when_nobody_else_does(public_probing: Cli) -> None:
    """SCHED_IDLE, which an ordinary user may not leave again: nor may threads of ours."""
    if os.getuid() != 0:
        pytest.skip("only root can be somebody else")
    user = User(public_probing, next(uids), prefix=("chrt", "--idle", "0"))
    try:
        job = user.probed_target()
        assert user("-t", job.pid, "eval", "6 * 7").expect(0).stdout.strip() == "42"
        assert os.sched_getscheduler(job.pid) == os.SCHED_IDLE
    finally:
        user.leave()
