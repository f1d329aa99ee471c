"""probingd: there when needed, one per user, found again after its death, gone when idle.

Each test is a user of its own, so that it has a daemon of its own.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import harness
import pytest
from harness import Cli, ask_daemon, wait_until
from users import BUSY, PYTHON, SLEEP, User, uids


def test_the_first_command_starts_it_in_the_background(user: User) -> None:
    pid = user.daemon()
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert os.getsid(pid) != os.getsid(0)
    assert [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (0, 1)] == ["/dev/null"] * 2
    log = Path(os.readlink(f"/proc/{pid}/fd/2"))
    assert log == user.folder / "probingd.log"
    assert log.stat().st_mode & 0o777 == 0o600
    assert user.daemon() == pid


def test_a_target_that_was_left_leaves_nothing_open(user: User) -> None:
    daemon = user.daemon()
    before = len(harness.open_files(daemon))
    job = user.target()
    for _ in range(10):
        user("-t", job.pid, "inject").expect(0)
        user("-t", job.pid, "eject").expect(0)
    # Files about the host (/proc/stat and so on) come with the first target and stay.
    most = before + 6
    wait_until(lambda: len(harness.open_files(daemon)) <= most, 30, "what was opened is closed")


def test_commands_that_start_it_at_once_get_one_daemon(user: User) -> None:
    with ThreadPoolExecutor(8) as pool:
        for answer in pool.map(lambda _: user("list"), range(16)):
            answer.expect(0)
    # Those that came second leave as soon as they see the lock.
    wait_until(lambda: len(user.daemons()) == 1, 30, "one daemon is left")


def test_after_its_death_the_next_command_starts_another_which_finds_the_targets(user: User) -> None:
    target = user.probed_target()
    first = user.daemon()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: harness.has_ended(first), 30, "the daemon is dead")
    assert user("-t", target.pid, "eval", "1 + 1").expect(0).stdout == "2\n"
    assert user.daemon() != first
    listed = user.listed(target.pid)
    assert listed is not None and listed["state"] == "live"
    assert target.poll() is None


def test_sigterm_ends_it_and_its_socket(user: User) -> None:
    harness.stop_process(user.daemon())
    assert not (user.folder / "probingd.sock").exists()


def test_it_ends_when_nobody_needs_it(user: User) -> None:
    pid = int(user("status", "--json", PROBING_DAEMON_IDLE_EXIT="0.3").expect(0).json["pid"])
    wait_until(lambda: harness.has_ended(pid), 30, "the idle daemon ends")
    assert not (user.folder / "probingd.sock").exists()


def test_it_stays_while_there_is_a_target_or_what_one_left(user: User) -> None:
    pid = int(user("status", "--json").expect(0).json["pid"])
    target = user.probed_target()
    user("config", "probing.daemon.idle_exit=0.2", "probing.keep_ended=0.1").expect(0)
    with pytest.raises(AssertionError, match="the daemon ends"):
        wait_until(lambda: harness.has_ended(pid), 1, "the daemon ends")
    target.kill()
    wait_until(lambda: harness.has_ended(pid), 30, "the daemon ends after its last target")


def test_a_target_that_ended_is_shown_as_such(user: User) -> None:
    target = user.probed_target()
    listed = user.listed(target.pid)
    assert listed is not None and listed["state"] == "live"
    target.kill()
    target.wait()
    wait_until(lambda: (user.listed(target.pid) or {}).get("state") == "ended", 30, "it is shown as ended")
    assert not (user.folder / f"{target.pid}.sock").exists(), "the socket it left behind is removed"


def test_a_target_that_was_ejected_is_shown_no_more(user: User) -> None:
    target = user.probed_target()
    assert user.listed(target.pid) is not None
    user("-t", target.pid, "eject").expect(0)
    assert user.listed(target.pid) is None
    assert user("-t", target.pid, "eval", "1").code == 4


def test_a_stopped_target_is_an_error_at_once(user: User) -> None:
    target = user.probed_target()
    os.kill(target.pid, signal.SIGSTOP)
    wait_until(lambda: set(harness.thread_states(target.pid).values()) == {"T"}, 30, "it is stopped")
    answer = user("-t", target.pid, "eval", "1")
    assert answer.code == 1
    assert "is stopped" in answer.stderr and "kill -CONT" in answer.stderr
    assert answer.seconds < 2
    os.kill(target.pid, signal.SIGCONT)
    assert user("-t", target.pid, "eval", "1").expect(0).stdout == "1\n"


def test_interrupting_the_command_interrupts_its_evaluation(user: User) -> None:
    target = user.probed_target()
    command = user.popen("-t", target.pid, "eval", "while True: pass")

    def evaluating() -> bool:
        return user("status", target.pid, "--json").json["probe"]["evaluating"] == "yes"

    wait_until(evaluating, 30, "the evaluation runs")
    command.send_signal(signal.SIGINT)
    command.communicate()
    wait_until(lambda: not evaluating(), 30, "the evaluation is interrupted")
    assert user("-t", target.pid, "eval", "1 + 1").expect(0).stdout == "2\n"


def test_other_commands_are_answered_during_an_evaluation(user: User) -> None:
    target = user.probed_target(BUSY)
    command = user.popen("-t", target.pid, "eval", "--timeout", "20", "while True: pass")
    wait_until(lambda: user("status", target.pid, "--json").json["probe"]["evaluating"] == "yes")
    user("list").expect(0)
    user("config", target.pid).expect(0)
    command.send_signal(signal.SIGINT)
    command.communicate()


OTHER_VERSION = """
import os, socket, sys
path = sys.argv[1]
server = socket.socket(socket.AF_UNIX)
server.bind(path)
server.listen()
print('ready', flush=True)
while True:
    client, _ = server.accept()
    while True:
        request = client.recv(65536)
        if not request:
            break
        if b'POST /api/v1/shutdown' in request:
            client.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\n{}')
            os.unlink(path)
            sys.exit()
        client.sendall(b'HTTP/1.1 426 Upgrade Required\\r\\nContent-Length: 2\\r\\n\\r\\n{}')
"""


def test_a_daemon_of_another_version_is_replaced(user: User) -> None:
    harness.stop_process(user.daemon())
    command = [PYTHON, "-c", OTHER_VERSION, str(user.folder / "probingd.sock")]
    identity = {"user": user.uid, "group": user.uid}
    with subprocess.Popen(command, stdout=subprocess.PIPE, **identity) as old:  # type: ignore[call-overload]
        assert old.stdout.readline() == b"ready\n"
        user("list").expect(0)
        assert old.wait(timeout=30) == 0
    assert len(user.daemons()) == 1


def test_a_stale_socket_is_no_obstacle(user: User) -> None:
    pid = user.daemon()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: harness.has_ended(pid), 30, "the daemon is dead")
    assert (user.folder / "probingd.sock").exists()
    user("list").expect(0)


def test_nobody_else_gets_in(user: User) -> None:
    user.daemon()
    path = str(user.folder / "probingd.sock")
    stranger = next(uids)
    code = f"import socket; socket.socket(socket.AF_UNIX).connect({path!r})"
    done = subprocess.run(
        ["setpriv", f"--reuid={stranger}", f"--regid={stranger}", "--clear-groups", PYTHON, "-c", code],
        capture_output=True,
        text=True,
    )
    assert "PermissionError" in done.stderr


def test_a_stranger_who_was_handed_the_socket_is_hung_up_on(user: User) -> None:
    """Even where the folder's mode does not help: the peer's uid is checked."""
    user.daemon()
    connection = socket.socket(socket.AF_UNIX)
    stranger = next(uids)
    user.folder.chmod(0o755)
    (user.folder / "probingd.sock").chmod(0o666)
    pid = os.fork()
    if pid == 0:
        code = 1
        with suppress(OSError):
            os.setuid(stranger)
            connection.connect(str(user.folder / "probingd.sock"))
            code = 0
            connection.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n")
            code = 0 if connection.recv(100) == b"" else 2
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_root_sees_a_target_in_another_mount_namespace(probing: Cli) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make mount namespaces")
    script = f'for d in /tmp /dev/shm /var/tmp; do mount -t tmpfs none $d; done; exec {PYTHON} -c "{SLEEP}"'
    with subprocess.Popen(["unshare", "-m", "sh", "-c", script], stdout=subprocess.PIPE) as target:
        try:
            assert target.stdout is not None
            assert target.stdout.readline() == b"ready\n"
            probing("-t", target.pid, "inject").expect(0)
            assert harness.probe_socket(target.pid) is None, "its socket is in its own /tmp"
            assert target.pid in [one["pid"] for one in probing("list", "--json").expect(0).json]
            assert probing("-t", target.pid, "eval", "1 + 1").expect(0).stdout == "2\n"
        finally:
            target.kill()


def test_the_daemon_may_open_as_many_files_as_the_system_allows(probing: Cli) -> None:
    probing("status").expect(0)
    limits = Path(f"/proc/{ask_daemon('GET', 'health')['pid']}/limits").read_text()
    soft, hard = next(line for line in limits.splitlines() if line.startswith("Max open files")).split()[3:5]
    assert soft == hard
