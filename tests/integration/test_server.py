"""probingd on the network: ways to be served, and the same commands from afar."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess

import harness
import pytest
from harness import wait_until
from serving import Served, read_all
from users import User, free_port

# ── ways to be served ────────────────────────────────────────────────────────────────────────


def answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(b"help\nquit\n")
        return b"list" in read_all(connection)
    return False


def test_a_preloaded_program_is_served_where_it_asks_to_be(user: User) -> None:
    """As the older README has it; nothing was started before."""
    port = free_port()
    target = user.target(
        LD_PRELOAD=str(user.bin / "libprobe.so"), PROBE_ADDR=f"127.0.0.1:{port}", PROBING_LOGLEVEL="debug"
    )
    wait_until(lambda: answers(port), 10, "the address answers")
    assert len(user.daemons()) == 1
    page = subprocess.run(["curl", "-sS", f"http://127.0.0.1:{port}/"], capture_output=True, text=True)
    assert page.returncode == 0 and "robing" in page.stdout, page
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"bt\nselect 41 + 1 as x\n")
        connection.shutdown(socket.SHUT_WR)
        text = read_all(connection).decode()
    assert "<module>" in text and "42" in text
    assert target.poll() is None
    assert harness.children_of(target.pid) == [], "the daemon is not the job's child"


def test_programs_that_ask_for_the_same_address_share_it(user: User) -> None:
    port = free_port()
    wish = {"LD_PRELOAD": str(user.bin / "libprobe.so"), "PROBING_PORT": str(port)}
    pids = {user.target(**wish).pid for _ in range(3)}

    def listed() -> set[int]:
        if not answers(port):
            return set()
        answer = user("-t", f"127.0.0.1:{port}", "list", "--json").expect(0)
        return {one["pid"] for one in answer.json if one["state"] == "live"}

    wait_until(lambda: listed() == pids, 10, "all of them are at one address")
    assert "serves several processes" in user("-t", f"127.0.0.1:{port}", "eval", "1").expect(2).stderr
    chosen = min(pids)
    answer = user("-t", f"127.0.0.1:{port}/{chosen}", "eval", "__import__('os').getpid()").expect(0)
    assert answer.stdout == f"{chosen}\n"


def test_inject_and_config_open_an_address_too(user: User) -> None:
    first, second = free_port(), free_port()
    target = user.target()
    assert (
        f"http://127.0.0.1:{first}/?ticket="
        in user("-t", target.pid, "inject", "--listen", first).expect(0).stdout
    )
    assert answers(first)
    user("config", f"probing.server.addr=127.0.0.1:{first},127.0.0.1:{second}").expect(0)
    assert answers(first) and answers(second)
    user("config", f"probing.server.addr=127.0.0.1:{second}").expect(0)
    assert not answers(first) and answers(second)
    user("serve", "--listen", second, "--close").expect(0)
    assert not answers(second)
    assert user("config", "probing.server.addr").expect(0).stdout == "none\n"


def test_a_taken_address_is_an_error_that_says_so(user: User) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        answer = user("serve", "--listen", taken.getsockname()[1], "--background").expect(1)
    assert "EADDRINUSE" in answer.stderr and "another port" in answer.stderr
    assert user("config", "probing.server.addr").expect(0).stdout == "none\n"


def test_an_address_keeps_the_daemon(user: User) -> None:
    user("serve", "--listen", free_port(), "--background", PROBING_DAEMON_IDLE_EXIT="0.2").expect(0)
    with pytest.raises(AssertionError, match="the daemon ends"):
        wait_until(lambda: not user.daemons(), 1, "the daemon ends")


# ── the same from afar ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "command",
    [
        ["backtrace"],
        ["backtrace", "--json"],
        ["eval", "6 * 7"],
        ["eval", "print('a'); 1/0"],
        ["query", "SELECT 1 AS a, 'x' AS b"],
        ["query", "-f", "csv", "SELECT func FROM python.backtrace"],
        ["query", "SELEC"],
        ["tables"],
        ["tables", "python.backtrace"],
        ["config"],
        ["config", "probing.eval.timeout"],
        ["backtrace", "--tid", "1"],
    ],
    ids=" ".join,
)
def test_a_command_says_the_same_from_afar(served: Served, command: list[str]) -> None:
    def said(target: object) -> tuple[int, str, str]:
        answer = served.user("-t", target, *command)
        return answer.code, answer.stdout, answer.stderr

    # The probe's own thread may be at work during one of them.
    wait_until(lambda: said(served.address) == said(served.pid), what="both say the same")


def test_flame_graphs_come_from_afar(served: Served) -> None:
    words = ["flamegraph", "-d", "0.3", "--idle", "-o", "-"]
    assert "inner" in served.user("-t", served.address, *words).expect(0).stdout
    words = ["record", "-d", "0.3", "--idle", "-f", "collapsed", "-o", "-"]
    assert "outer" in served.user("-t", served.address, *words).expect(0).stdout


def test_a_target_is_left_from_afar(served: Served) -> None:
    target = served.user.probed_target()
    answer = served.user("-t", f"{served.address}/{target.pid}", "eject").expect(0)
    assert "ejected" in answer.stdout
    assert served.user.listed(target.pid) is None
    target.kill()
    target.wait()


def test_what_only_works_here_says_so(served: Served) -> None:
    assert "this machine" in served.user("-t", served.address, "doctor").expect(2).stderr
    refused = served.user("-t", f"{served.address}/{served.pid}", "inject", "--dll", "/x").expect(2)
    assert "this machine" in refused.stderr


def test_the_top_functions_come_from_afar(served: Served) -> None:
    words = ["top", "--once", "--idle"]
    there = served.user("-t", served.address, *words).expect(0).stdout.splitlines()
    here = served.user("-t", served.pid, *words).expect(0).stdout.splitlines()
    assert there[0] == f"{served.address}/{served.pid}"
    assert there[3] == here[3], "the same columns"
    assert {line.split()[2] for line in there[4:]} == {line.split()[2] for line in here[4:]}
    assert "inner" in "".join(there) and "wait_in_thread" in "".join(there)


def test_a_process_is_entered_from_afar(served: Served) -> None:
    target = served.user.target()
    place = f"{served.address}/{target.pid}"
    assert f"into {target.pid} (" in served.user("-t", place, "inject").expect(0).stdout
    again = served.user("-t", place, "inject", "--json").expect(0).json
    assert again["already"] is True and again["pid"] == target.pid
    assert served.user("-t", place, "eval", "6 * 7").expect(0).stdout == "42\n"
    target.kill()
    target.wait()
    missing = served.user("-t", place, "inject").expect(4)
    assert str(target.pid) in missing.stderr and missing.stderr.count("probing: ") == 1
    log = (served.user.folder / "audit.jsonl").read_text()
    assert '"action":"inject"' in log


def test_nobody_there_is_an_error_with_a_hint(served: Served) -> None:
    answer = served.user("-t", f"127.0.0.1:{free_port()}", "status").expect(4)
    assert "ECONNREFUSED" in answer.stderr and "probing serve" in answer.stderr


def test_variables_have_a_depth_and_tell_arguments_from_locals(served: Served) -> None:
    path = f"/api/v1/backtrace?target={served.pid}&locals=1"

    def thread_object(query: str) -> str:
        threads = served.json("GET", path + query, Authorization=f"Bearer {served.token}")["threads"]
        frames = [frame for thread in threads for frame in thread["frames"]]
        frame = next(each for each in frames if each["func"].endswith("_bootstrap_inner"))
        assert frame["arguments"] == ["self"]
        return frame["locals"]["self"]

    assert "_target=<function wait_in_thread>" in thread_object("")
    assert re.fullmatch(r"<threading\.Thread at 0x[0-9a-f]+>", thread_object("&depth=0"))
    for wrong in ("33", "-1", "x"):
        status, content, _ = served.http(
            "GET", f"{path}&depth={wrong}", Authorization=f"Bearer {served.token}"
        )
        assert (status, b"0 to 32" in content) == (400, True), wrong


def test_clients_that_go_in_the_middle_of_an_answer_harm_nobody(served: Served) -> None:
    """Stacks are read on another thread, which must not be told of it in the middle of its work."""
    before = served.user("status", "--json").expect(0).json["pid"]
    path = f"/api/v1/backtrace?target={served.pid}"
    for _ in range(20):
        connections = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(40)]
        for connection in connections:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {served.address}\r\n\r\n".encode())
        connections[0].recv(1)  # they are being answered
        for connection in connections:
            connection.close()
    assert served.http("GET", path)[0] == 200
    assert served.user("status", "--json").expect(0).json["pid"] == before
