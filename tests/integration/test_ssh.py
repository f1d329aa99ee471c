"""`probing inject --job --hosts`: the ranks of many hosts, by ssh. A real sshd stands for all of them."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import harness
import pytest
from harness import Cli, Target, wait_until
from users import free_port

StartTarget = Callable[..., Target]


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A command that gets into 127.0.0.1 and 127.0.0.2, and nowhere else."""
    if os.getuid() != 0:
        pytest.skip("sshd is started as root")
    folder = tmp_path_factory.mktemp("ssh")
    port = free_port()
    for key in ("host", "user"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
        subprocess.run(command, check=True)
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nListenAddress 127.0.0.2\nHostKey {folder}/host\n"
        f"AuthorizedKeysFile {folder}/user.pub\nStrictModes no\nUsePAM no\nPidFile none\n"
        f"PermitRootLogin yes\nPasswordAuthentication no\nSetEnv PATH={harness.BIN}:/usr/bin:/bin\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)  # where it gives up its rights
    log = folder / "log"
    server = subprocess.Popen(
        [shutil.which("sshd") or "/usr/sbin/sshd", "-D", "-f", folder / "config", "-E", log]
    )
    (folder / "client").write_text(
        f"IdentityFile {folder}/user\nIdentitiesOnly yes\nUserKnownHostsFile {folder}/known\n"
        f"StrictHostKeyChecking no\nLogLevel ERROR\nMatch host 127.0.0.1,127.0.0.2\nPort {port}\n"
    )

    def answers() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
            return True
        return False

    try:
        wait_until(answers, 20, "sshd")
        yield f"ssh -F {folder}/client"
    finally:
        server.terminate()
        server.wait(20)


def ranks(target: StartTarget, job: str, count: int = 2) -> list[Target]:
    return [target("plain", RANK=str(rank), PROBING_JOB=job) for rank in range(count)]


def test_the_ranks_of_all_hosts_are_entered(probing: Cli, target: StartTarget, ssh: str) -> None:
    """Both are this machine: the second finds entered what the first has."""
    job = f"ssh-{os.getpid()}"
    started = ranks(target, job)
    answer = probing("-t", f"job:{job}", "inject", "--hosts", "127.0.0.[1-2]", PROBING_SSH=ssh).expect(0)
    for host in ("127.0.0.1", "127.0.0.2"):
        lines = [line for line in answer.stdout.splitlines() if line.startswith(f"{host}: rank ")]
        assert len(lines) == 2, answer.stdout
    assert all(harness.is_probed(each.pid) for each in started)


def test_as_json(probing: Cli, target: StartTarget, ssh: str) -> None:
    job = f"json-{os.getpid()}"
    started = ranks(target, job)
    answer = probing("-t", f"job:{job}", "inject", "--hosts", "127.0.0.1", "--json", PROBING_SSH=ssh).expect(
        0
    )
    [host] = answer.json
    assert host["host"] == "127.0.0.1"
    assert {rank["pid"] for rank in host["ranks"]} == {each.pid for each in started}


def test_a_host_that_hangs_costs_the_deadline_and_one_that_is_not_there_a_line(
    probing: Cli, target: StartTarget, ssh: str
) -> None:
    job = f"hung-{os.getpid()}"
    ranks(target, job)
    with socket.create_server(("127.0.0.3", 22)):  # accepts and says nothing
        hosts = "127.0.0.1,127.0.0.3,127.0.0.4"
        began = time.monotonic()
        command = ("-t", f"job:{job}", "inject", "--hosts", hosts, "--timeout", 6)
        answer = probing(*command, PROBING_SSH=ssh).expect(6)
        assert 6 <= time.monotonic() - began < 20
    assert answer.stdout.count("127.0.0.1: rank ") == 2
    assert "probing: 127.0.0.3: did not answer in time\n" in answer.stderr
    assert "probing: 127.0.0.4: ssh: connect to host 127.0.0.4 port 22: Connection refused\n" in answer.stderr
    assert "2 of 3 hosts failed" in answer.stderr


def test_a_host_without_the_job_says_so(probing: Cli, ssh: str) -> None:
    answer = probing("-t", "job:nobodys", "inject", "--hosts", "127.0.0.1", PROBING_SSH=ssh).expect(6)
    assert "probing: 127.0.0.1: " in answer.stderr and "job" in answer.stderr


def test_without_ssh_that_is_what_is_said(probing: Cli) -> None:
    answer = probing("-t", "job:x", "inject", "--hosts", "a", PROBING_SSH="/nowhere/ssh -v").expect(6)
    assert "probing: a: run /nowhere/ssh: ENOENT" in answer.stderr


def test_the_hosts_of_a_file(probing: Cli, target: StartTarget, ssh: str, tmp_path: Path) -> None:
    job = f"file-{os.getpid()}"
    ranks(target, job, 1)
    hostfile = tmp_path / "hosts"
    hostfile.write_text(
        "# two nodes\n\n127.0.0.1 slots=8 max_slots=8\n  127.0.0.2:4   # as MPICH writes it\n"
    )
    answer = probing("-t", f"job:{job}", "inject", "--hostfile", hostfile, PROBING_SSH=ssh).expect(0)
    assert [line.split(": ")[0] for line in answer.stdout.splitlines()] == ["127.0.0.1", "127.0.0.2"]


def test_a_job_name_is_no_shell_command(probing: Cli, ssh: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    name = f"job:x'; touch {mark}; '"
    probing("-t", name, "inject", "--hosts", "127.0.0.1", PROBING_SSH=ssh).expect(6)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--job", "--hosts", "node[1-"), "is not a list of hosts"),
        (("--job", "--hosts", "-oProxyCommand=touch"), "is not a list of hosts"),
        (("--job", "--hostfile", "/nowhere"), "ENOENT"),
        (("--job", "--hosts", "a", "--listen", "3344"), "--listen is for processes of this machine"),
    ],
)
def test_what_is_no_list_of_hosts_is_refused(probing: Cli, arguments: tuple[str, ...], reason: str) -> None:
    answer = probing("inject", *arguments)
    assert answer.code != 0 and reason in answer.stderr, answer.stderr
