"""Other ways in than ptrace, and targets that live somewhere else."""

from __future__ import annotations

import http.client
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import harness
import pytest
from harness import Cli, Target, wait_until
from users import User, free_port, uids

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


def test_a_program_that_ends_while_the_probe_waits_for_an_import_ends_as_ever(
    tmp_path: Path, python: str
) -> None:
    """One short program in a hundred crashed at its end: a thread of the probe waited for the lock
    of imports while the interpreter was taken apart."""
    slow = tmp_path / "slow_locks.so"
    source = harness.TARGETS / "library_slow_locks.c"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", slow, source, "-ldl", "-pthread"], check=True)
    program = "import _imp, time; _imp.acquire_lock(); time.sleep(0.1); _imp.release_lock()"
    environment = harness.clean_environment(LD_PRELOAD=f"{harness.BIN / 'libprobing.so'} {slow}")
    for _ in range(3):
        command = [str(harness.pythons()[python]), "-c", program]
        done = subprocess.run(command, capture_output=True, env=environment, timeout=60)
        assert (done.stdout, done.stderr, done.returncode) == (b"", b"", 0)


# ── PROBE_BG ─────────────────────────────────────────────────────────────────────────────────


# Says that it has begun, what it has been told, and whether a program that it starts begins, too.
BEGINS = (
    "import os, subprocess, sys; print('begun', flush=True); "
    "subprocess.check_call([sys.executable, '-c', 'print(\"child\", flush=True)']); "
    "print(os.environ.get('PROBE_BG'), flush=True); sys.stdin.read()"
)
PRELOAD = str(harness.BIN / "libprobe.so")
StartJob = Callable[..., "Job"]


class Job:
    """A program that says so when it begins, and then waits for the end of its input."""

    def __init__(self, command: list[str], **environment: str) -> None:
        self.process = subprocess.Popen(
            [*command, "-c", BEGINS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=harness.clean_environment(**environment),
        )
        self.pid = self.process.pid

    def has_said(self, seconds: float) -> bool:
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], seconds)[0])

    def expect_waiting(self, probing: Cli) -> None:
        """The probe is there and known to probingd, and still the program has not begun."""
        wait_until(lambda: harness.probe_socket(self.pid) is not None, 20, "a probe")

        def is_live() -> bool:
            targets = harness.ask_daemon("GET", "targets")["targets"]
            return any(one["pid"] == self.pid and one["state"] == "live" for one in targets)

        probing("list").expect(0)
        wait_until(is_live, 20, "probingd knows the target")
        assert not self.has_said(0.3), "it does not begin without a client"

    def expect_end(self, bg: str | None) -> None:
        assert self.has_said(20), "it has begun"
        stdout, stderr = self.process.communicate(timeout=20)
        assert (stdout.decode().split(), stderr) == (["begun", "child", str(bg)], b"")
        assert self.process.returncode == 0

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def job() -> Iterator[StartJob]:
    started: list[Job] = []

    def start(*command: object, **environment: str) -> Job:
        started.append(Job([*map(str, command)], **environment))
        return started[-1]

    yield start
    for one in started:
        one.end()


@pytest.fixture(scope="module")
def hooked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the start hook."""
    venv = tmp_path_factory.mktemp("hooked") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    tool = [sys.executable, str(harness.ROOT / "tools/install_hook.py"), "--python", str(venv / "bin/python")]
    subprocess.run([*tool, "--library", str(harness.BIN / "libprobing.so")], check=True, capture_output=True)
    return venv / "bin/python"


WAYS = ["preload", "run", "hook"]


@pytest.fixture
def start_by(job: StartJob, hooked: Path) -> StartJob:
    """start_by("hook", PROBE_BG="0")"""

    def start(way: str, **environment: str) -> Job:
        if way == "hook":
            return job(hooked, PROBING="1", **environment)
        if way == "run":
            return job(harness.BIN / "probing", "run", "--", sys.executable, **environment)
        return job(sys.executable, LD_PRELOAD=PRELOAD, **environment)

    return start


@pytest.mark.parametrize("way", WAYS)
def test_with_probe_bg_0_the_program_begins_when_a_command_asks_about_it(
    probing: Cli, start_by: StartJob, way: str
) -> None:
    one = start_by(way, PROBE_BG="0")
    one.expect_waiting(probing)
    assert "Thread" in probing("-t", one.pid, "backtrace").expect(0).stdout
    one.expect_end("1")


def test_with_probe_bg_0_every_python_waits_and_answers_its_first_client(
    probing: Cli, job: StartJob, python: str
) -> None:
    one = job(harness.pythons()[python], LD_PRELOAD=PRELOAD, PROBE_BG="0")
    one.expect_waiting(probing)
    assert probing("-t", one.pid, "eval", "6 * 7").expect(0).stdout == "42\n"
    one.expect_end("1")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("bg", ["1", None])
def test_with_probe_bg_1_the_program_begins_at_once(start_by: StartJob, way: str, bg: str | None) -> None:
    one = start_by(way, **({"PROBE_BG": bg} if bg else {}))
    one.expect_end(bg)


def ask_by_http(port: int) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    body = '{"sql": "SELECT 6 * 7 AS answer", "format": "csv"}'
    connection.request("POST", "/api/v1/query", body, {"Content-Type": "application/json"})
    return connection.getresponse().read().decode()


def ask_by_text(port: int) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"SELECT 6 * 7 AS answer\n")
        connection.shutdown(socket.SHUT_WR)
        return connection.makefile().read()


@pytest.mark.parametrize("ask", [ask_by_http, ask_by_text])
@pytest.mark.parametrize("way", ["preload", "hook"])
def test_with_probe_bg_0_the_program_begins_when_its_address_is_asked(
    probing: Cli, start_by: StartJob, way: str, ask: Callable[[int], str]
) -> None:
    port = free_port()
    one = start_by(way, PROBE_BG="0", PROBE_ADDR=f"127.0.0.1:{port}")
    one.expect_waiting(probing)

    def is_served() -> bool:  # a connection that says nothing is no client
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", port)) == 0

    wait_until(is_served, 20, "the address is served")
    assert not one.has_said(0.2)
    assert "42" in ask(port)
    one.expect_end("1")


def test_a_request_about_another_process_is_no_client(probing: Cli, start_by: StartJob, busy: Target) -> None:
    one = start_by("preload", PROBE_BG="0")
    one.expect_waiting(probing)
    assert probing("-t", busy.pid, "eval", "6 * 7").expect(0).stdout == "42\n"
    assert not one.has_said(0.3)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("way", WAYS)
def test_a_signal_ends_a_program_that_waits_for_its_client(
    probing: Cli, start_by: StartJob, way: str, how: signal.Signals
) -> None:
    one = start_by(way, PROBE_BG="0")
    one.expect_waiting(probing)
    one.process.send_signal(how)
    assert one.process.communicate(timeout=20) == (b"", b""), "without a word"
    assert one.process.returncode == -how


@pytest.mark.parametrize("way", ["preload", "hook"])
def test_eject_ends_the_wait_for_a_client(probing: Cli, start_by: StartJob, way: str) -> None:
    one = start_by(way, PROBE_BG="0")
    one.expect_waiting(probing)
    # Told to the probe itself: a request to probingd would be a client.
    tell = f"from probing import _control; _control.ask({str(harness.probe_socket(one.pid))!r}, 'eject')"
    alone = harness.clean_environment(PYTHONPATH=str(harness.ROOT / "python"), PROBING_DISABLE="1")
    subprocess.run([sys.executable, "-c", tell], env=alone, check=True)
    one.expect_end("1")
    assert harness.probe_socket(one.pid) is None


@pytest.mark.parametrize("way", ["preload", "hook"])
def test_a_program_whose_address_cannot_be_served_does_not_wait(start_by: StartJob, way: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        one = start_by(way, PROBE_BG="0", PROBE_ADDR=f"127.0.0.1:{taken.getsockname()[1]}")
        one.expect_end("1")


def test_a_program_without_a_probingd_to_serve_its_address_does_not_wait(
    probing: Cli, job: StartJob, tmp_path: Path
) -> None:
    lonely = tmp_path / "libprobing.so"  # no probingd is beside it
    lonely.write_bytes((harness.BIN / "libprobing.so").read_bytes())
    for daemon in harness.daemons([harness.BIN]):
        harness.stop_process(daemon)
    one = job(sys.executable, LD_PRELOAD=str(lonely), PROBE_BG="0", PROBE_ADDR=f"127.0.0.1:{free_port()}")
    one.expect_end("1")


def test_a_program_whose_probe_cannot_listen_does_not_wait(job: StartJob) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make a mount namespace here")
    script = "; ".join(["set -e", *(cover(p, READ_ONLY) for p in harness.socket_directories(0))])
    inside = f'{script}; LD_PRELOAD={PRELOAD} exec "$@"'
    one = job("unshare", "--mount", "sh", "-c", inside, "sh", sys.executable, PROBE_BG="0")
    one.expect_end("1")


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
    outer.will_end(-9, 137)  # as unshare tells of its child
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
