"""What else is in the process, or looks at it: debuggers, timers, a second Python, what others left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import harness
import pytest
from harness import Cli, Target
from test_odd_pythons import EXPECTED, backtrace, frames, link_statically

StartTarget = Callable[..., Target]
MEMFD = "/memfd:libprobing.so (deleted)"


# ── timers ───────────────────────────────────────────────────────────────────────────────────


def look_until_it_fired_twice(job: Target, look: Callable[[], None]) -> None:
    """Looks several times within each wait; a wait that began anew each time would never end."""
    deadline = time.monotonic() + 30
    while job.report()["fired"] < 2:
        assert time.monotonic() < deadline, f"the timer never fired: {job.report()}"
        look()
        time.sleep(0.3)
    report = job.report()
    assert report["early"] == 0, report
    assert report["latest_ms"] < 700, report
    job.expect_unharmed()


@pytest.mark.parametrize("kind", ["epoll", "socket"])
def test_timers_fire_on_time_while_all_threads_are_stopped_again_and_again(
    probing: Cli, target: StartTarget, kind: str
) -> None:
    job = target("timers", kind)

    def look() -> None:
        answer = probing("backtrace", "-t", job.pid, "--stop", "--json").expect(0)
        assert not answer.json["threads"][0]["torn"]

    look_until_it_fired_twice(job, look)


def test_timers_fire_on_time_while_native_stacks_are_read(probing: Cli, target: StartTarget) -> None:
    job = target("timers", "socket")
    look_until_it_fired_twice(job, lambda: probing("bt", "-t", job.pid, "--native").expect(0) and None)


def test_timers_fire_on_time_while_the_process_is_entered_and_left(probing: Cli, target: StartTarget) -> None:
    if "se.exec_start" not in Path("/proc/self/sched").read_text():
        pytest.skip("this kernel does not tell since when a thread sleeps (/proc/PID/sched)")
    job = target("timers", "epoll")

    def look() -> None:
        probing("-t", job.pid, "inject").expect(0)
        probing("-t", job.pid, "eject").expect(0)

    look_until_it_fired_twice(job, look)


# ── debuggers ────────────────────────────────────────────────────────────────────────────────


def debug(pid: int, folder: Path) -> None:
    """As a user would: stdin is a pipe that never ends, so that opening it would hang."""
    reader, writer = os.pipe()
    for command in (
        ["gdb", "-nx", "-batch", "-p", str(pid), "-ex", "bt 3"],
        ["gcore", "-o", str(folder / "core"), str(pid)],
    ):
        ended = subprocess.run(
            command, stdin=reader, pass_fds=(reader,), capture_output=True, timeout=40, check=False
        )
        assert ended.returncode == 0, ended.stderr.decode()
    os.close(reader)
    os.close(writer)
    assert (folder / f"core.{pid}").stat().st_size > 0
    (folder / f"core.{pid}").unlink()


def test_debuggers_work_on_an_entered_process(probing: Cli, target: StartTarget, tmp_path: Path) -> None:
    for program in ("gdb", "gcore"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} here")
    busy = target("busy")
    probing("-t", busy.pid, "inject").expect(0)
    debug(busy.pid, tmp_path)
    busy.expect_progress()
    probing("-t", busy.pid, "eject").expect(0)
    debug(busy.pid, tmp_path)
    busy.expect_progress()


def test_the_loader_knows_the_library_by_a_name_that_leads_nowhere(probing: Cli, target: StartTarget) -> None:
    busy = target("busy")
    for _ in range(2):
        probing("-t", busy.pid, "inject").expect(0)
        code = (
            "import ctypes as c\n"
            "L = type('L', (c.Structure,), {})\n"
            "p = c.c_void_p\n"
            "L._fields_ = [('a', p), ('name', c.c_char_p), ('ld', p), ('next', c.POINTER(L))]\n"
            "m = c.cast(c.CDLL(None)._handle, c.POINTER(L))\n"
            "names = []\n"
            "while m:\n"
            "    names.append(m.contents.name.decode()); m = m.contents.next\n"
            "print([n for n in names if 'libprobing' in n or '/proc' in n])\n"
        )
        assert probing("-t", busy.pid, "eval", code).expect(0).stdout.strip() == f"['{MEMFD}']"
        probing("-t", busy.pid, "eject").expect(0)


# ── limits and leftovers ─────────────────────────────────────────────────────────────────────


def test_a_job_that_may_write_no_file_is_entered_and_left(probing: Cli, target: StartTarget) -> None:
    busy = target("busy", prefix=["bash", "-c", 'ulimit -f 0; exec "$0" "$@"'])
    probing("-t", busy.pid, "inject").expect(0)
    assert probing("-t", busy.pid, "eval", "1 + 1").expect(0).stdout == "2\n"
    probing("-t", busy.pid, "eject").expect(0)
    harness.wait_until(lambda: not harness.is_probed(busy.pid))
    busy.expect_progress()


def test_what_a_killed_injector_left_is_removed_by_the_next(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    def count_left(pid: int) -> int:
        return list(harness.open_files(pid).values()).count(MEMFD)

    # Killed when it has written the library into the memfd, and when it has mapped the stub.
    left = 0
    for call, number in (("pwrite64", 1), ("memfd_create", 1)):
        victim = target("blocked", c=True)
        for _ in range(2):
            command = ["strace", "-f", "-qq", "-o", str(tmp_path / "log"), f"--trace={call}"]
            command += [f"--inject={call}:signal=KILL:when={number}", str(probing.bin / "probing")]
            subprocess.run(
                [*command, "-t", str(victim.pid), "inject", "--no-python"],
                capture_output=True,
                timeout=60,
                check=False,
                env=harness.clean_environment(),
            )
            victim.expect_progress()
            left += count_left(victim.pid)
        probing("-t", victim.pid, "inject", "--no-python").expect(0)
        harness.wait_until(lambda pid=victim.pid: count_left(pid) == 0, 10, "no memfd is left")
        maps = Path(f"/proc/{victim.pid}/maps").read_text().splitlines()
        assert not [line for line in maps if MEMFD in line and line.split()[1].endswith("s")], maps
        victim.expect_progress()
    assert left > 0, "strace killed the injector too early: nothing was left"


def test_a_child_of_vfork_is_refused(probing: Cli, target: StartTarget) -> None:
    parent = target("vfork", c=True)
    child = parent.report()["child"]
    answer = probing("-t", child, "inject").expect(3)
    assert "vfork" in answer.stderr and str(parent.pid) in answer.stderr
    parent.expect_progress()
    assert not harness.is_probed(parent.pid)
    os.kill(child, signal.SIGKILL)
    parent.process.wait(10)


# ── a second Python ──────────────────────────────────────────────────────────────────────────


def libraries() -> list[Path]:
    found = []
    for interpreter in harness.pythons().values():
        found += sorted(interpreter.resolve().parent.parent.glob("lib/libpython3.*.so.1.0"))
    return found


@pytest.mark.parametrize("mode", ["RTLD_GLOBAL", "RTLD_LOCAL"])
def test_a_second_python_that_nobody_started_does_not_matter(
    probing: Cli, target: StartTarget, python: str, mode: str, tmp_path: Path
) -> None:
    own = ".".join(map(str, harness.version_of(python)[:2]))
    there = libraries()
    same = [each for each in there if f"libpython{own}" in each.name]
    others = [each for each in there if f"libpython{own}" not in each.name]
    if not same and not others:
        pytest.skip("no Python of this machine has a libpython3.*.so")
    copies = [shutil.copy(same[0], tmp_path / "libpython_copy.so")] if same else []
    for library in [*copies, *others[:1], *others[-1:]]:
        job = target("second_python", library, mode, python=python)
        assert str(library) in Path(f"/proc/{job.pid}/maps").read_text()
        seen = backtrace(probing, job.pid)
        assert seen["python"].startswith(own + "."), library
        assert frames(seen)[-1][0] == "<module>"
        probing("-t", job.pid, "inject").expect(0)
        code = "import sys; print(sys.version_info[:2])"
        expected = str(harness.version_of(python)[:2])
        assert probing("-t", job.pid, "eval", code).expect(0).stdout.strip() == expected
        probing("-t", job.pid, "eject").expect(0)
        job.expect_progress()
        job.kill()


def test_a_program_with_its_own_python_and_a_library_it_does_not_use(
    probing: Cli, target: StartTarget, python: str, tmp_path: Path
) -> None:
    there = libraries()
    if not there:
        pytest.skip("no Python of this machine has a libpython3.*.so")
    program = tmp_path / "trainer"
    environment = link_statically(python, program)
    job = target("plain", python=str(program), LD_PRELOAD=str(there[-1]), **environment)
    assert str(there[-1]) in Path(f"/proc/{job.pid}/maps").read_text()
    assert frames(backtrace(probing, job.pid)) == EXPECTED
