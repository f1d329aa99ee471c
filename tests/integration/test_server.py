"""probingd on the network: who gets in, what they get, and what attackers get instead.

One user with one daemon, one target and one address for most tests; a user of their own for those
that change any of it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import harness
import pytest
from harness import Cli, wait_until
from users import PYTHON, User, free_port, uids

THREE_THREADS = """
import threading, time
def wait_in_thread(): time.sleep(600)
for _ in range(2): threading.Thread(target=wait_in_thread, daemon=True).start()
def outer(): inner()
def inner():
    print('ready', flush=True)
    time.sleep(600)
outer()
"""


@dataclass(frozen=True)
class Served:
    user: User
    port: int
    pid: int
    token: str

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def raw(self, data: bytes, timeout: float = 20, has_more: bool = True) -> bytes:
        """What comes back until the server closes; by root, who needs no token either."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection:
            with contextlib.suppress(ConnectionError):
                connection.sendall(data)
                if not has_more:
                    connection.shutdown(socket.SHUT_WR)
            return read_all(connection)

    def http(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        data = json.dumps(body) if body is not None else None
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if data is not None:
            fields.setdefault("Content-Type", "application/json")
        connection.request(method, path, data, fields)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, content, response.headers

    def json(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        status, content, _ = self.http(method, path, body, **headers)
        assert status == 200, content
        return json.loads(content)


def read_all(connection: socket.socket) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65536):
            data += piece
    return data


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


@pytest.fixture(scope="module")
def served(public_probing: Cli) -> Iterator[Served]:
    if os.getuid() != 0:
        pytest.skip("only root can be somebody else")
    user = User(public_probing, next(uids))
    target = user.probed_target(THREE_THREADS)
    port = free_port()
    user("serve", "--listen", f"127.0.0.1:{port}", "--background").expect(0)
    yield Served(user, port, target.pid, user("token").expect(0).stdout.strip())
    assert target.poll() is None, "the target lives through all of it"
    user.leave()


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


def test_an_address_beyond_this_machine_is_refused_unless_one_insists(user: User) -> None:
    port = free_port()
    refused = user("serve", "--listen", f"0.0.0.0:{port}", "--background").expect(3)
    assert "other machines" in refused.stderr and "hint: " in refused.stderr
    assert not answers(port)
    user("config", "probing.server.plain=true").expect(0)
    user("serve", "--listen", f"0.0.0.0:{port}", "--background").expect(0)
    assert answers(port)


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
    for command in ("inject", "doctor", "top"):
        assert "this machine" in served.user("-t", served.address, command).expect(2).stderr


def test_nobody_there_is_an_error_with_a_hint(served: Served) -> None:
    answer = served.user("-t", f"127.0.0.1:{free_port()}", "status").expect(4)
    assert "ECONNREFUSED" in answer.stderr and "probing serve" in answer.stderr


# ── who gets in ──────────────────────────────────────────────────────────────────────────────


def as_stranger(served: Served, *headers: str, path: str = "/api/v1/targets") -> tuple[int, str]:
    """curl by a user who is neither the owner nor root."""
    stranger = next(uids)
    command = ["setpriv", f"--reuid={stranger}", f"--regid={stranger}", "--clear-groups", "curl", "-sS"]
    for header in headers:
        command += ["-H", header]
    command += ["-w", "\n%{http_code}", f"http://{served.address}{path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    text, _, status = done.stdout.rpartition("\n")
    return int(status), text


def test_another_user_of_this_machine_needs_a_token(served: Served) -> None:
    status, text = as_stranger(served)
    assert status == 401 and "probing token" in text
    for path in ("/", "/metrics", "/api/v1/health", "/mcp", "/nothing"):
        assert as_stranger(served, path=path)[0] == 401
    status, text = as_stranger(served, f"Authorization: Bearer {served.token}")
    assert status == 200 and json.loads(text)["targets"][0]["pid"] == served.pid


def test_the_owner_needs_none(served: Served) -> None:
    done = served.user.run("curl", "-sS", f"http://{served.address}/api/v1/health")
    assert json.loads(done.stdout)["status"] == "ok"


def test_the_command_line_sends_the_token(served: Served) -> None:
    stranger = User(Cli(served.user.bin), next(uids))
    refused = stranger("-t", served.address, "list").expect(3)
    assert "PROBING_TOKEN" in refused.stderr
    assert (
        stranger("-t", served.address, "eval", "1 + 1", PROBING_TOKEN=served.token).expect(0).stdout == "2\n"
    )
    assert not stranger.daemons(), "no daemon of the stranger's is started for it"


def test_rights_are_told_apart(served: Served) -> None:
    tokens = served.user("token", "--json").expect(0).json
    stranger = User(Cli(served.user.bin), next(uids))
    for right, allowed in (("read", 0), ("profile", 1), ("eval", 2)):
        commands = [["backtrace"], ["record", "-d", "0.1", "-f", "collapsed", "-o", "-"], ["eval", "1"]]
        codes = [
            stranger("-t", served.address, *command, PROBING_TOKEN=tokens[right]).code for command in commands
        ]
        assert codes == [0 if i <= allowed else 3 for i in range(3)], right
    headers = {"Authorization": f"Bearer {tokens['eval']}"}
    assert served.http("POST", "/api/v1/shutdown", {}, **headers)[0] == 403, "not over the network"
    assert served.http("GET", "/api/v1/token", **headers)[0] == 403


def test_a_link_lets_a_browser_in_once(served: Served) -> None:
    link = served.user("serve", "--listen", served.address, "--background", "--json").expect(0).json["link"]
    path = link.removeprefix(f"http://{served.address}")
    stranger = next(uids)
    command = ["setpriv", f"--reuid={stranger}", f"--regid={stranger}", "--clear-groups", "curl", "-sSi"]
    first = subprocess.run([*command, link], capture_output=True, text=True, timeout=30).stdout
    assert first.startswith("HTTP/1.1 303") and "\nLocation: /" in first
    cookie = next(line for line in first.splitlines() if line.startswith("Set-Cookie: "))
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    value = cookie.removeprefix("Set-Cookie: ").split(";")[0]
    assert as_stranger(served, f"Cookie: {value}")[0] == 200
    assert as_stranger(served, path=path)[0] == 401


def test_guessing_is_slowed_down_and_noted(user: User) -> None:
    port = free_port()
    user("serve", "--listen", port, "--background").expect(0)
    served = Served(user, port, 0, "")
    wrong = "Authorization: Bearer wrong-wrong-wrong"
    codes = [as_stranger(served, wrong)[0] for _ in range(11)]
    assert codes == [401] * 10 + [429]
    user("status").expect(0)
    log = [json.loads(line) for line in (user.folder / "audit.jsonl").read_text().splitlines()]
    assert len([line for line in log if line["action"] == "refused"]) == 11
    assert (user.folder / "audit.jsonl").stat().st_mode & 0o777 == 0o600
    assert (user.folder / "token").stat().st_mode & 0o777 == 0o600


def test_evaluations_and_settings_are_noted(user: User) -> None:
    target = user.probed_target()
    user("-t", target.pid, "eval", "'mark' + 'er'").expect(0)
    user("config", "probing.loglevel=info").expect(0)
    log = (user.folder / "audit.jsonl").read_text()
    assert "'mark' + 'er'" in log and "probing.loglevel" in log and f"uid {user.uid}" in log


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1.evil\r\n", 421),
        (b"GET /api/v1/health HTTP/1.1\r\nHost: localhost6\r\n", 421),
        (b"GET /api/v1/health HTTP/1.1\r\nHost: 10.0.2.555\r\n", 421),
        (b"GET /api/v1/health HTTP/1.1\r\nHost: 0177.0.0.1\r\n", 421),
        (b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil\r\n", 400),
        (b"GET /api/v1/health HTTP/1.1\r\n", 400),
        (b"GET http://127.0.0.1/api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n", 400),
        (b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil\r\n", 403),
        (b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: null\r\n", 403),
        (b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-Fetch-Site: cross-site\r\n", 403),
        (
            b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n",
            415,
        ),
        (b"OPTIONS /api/v1/eval HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil\r\n", 403),
        (b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n", 200),
    ],
)
def test_other_sites_cannot_use_the_users_browser(served: Served, head: bytes, status: int) -> None:
    answer = served.raw(head + b"Connection: close\r\n\r\n")
    assert status_of(answer) == status, answer
    assert b"Access-Control-Allow" not in answer


def test_a_websocket_of_another_site_is_refused(served: Served) -> None:
    head = (
        f"GET /api/v1/repl?target={served.pid} HTTP/1.1\r\nHost: {served.address}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    )
    assert status_of(served.raw(f"{head}Origin: http://evil\r\n\r\n".encode())) == 403


# ── what comes in, what goes out ─────────────────────────────────────────────────────────────


def test_answers_carry_the_headers_that_browsers_heed(served: Served) -> None:
    _, _, headers = served.http("GET", "/")
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"


@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2fetc/passwd", "/etc/passwd", "/x%00.js"]
)
def test_there_are_no_files_but_the_pages(served: Served, path: str) -> None:
    answer = served.raw(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    assert status_of(answer) == 404 and b"root:" not in answer


@pytest.mark.parametrize("body", [b"{", b"[1]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000])
def test_bodies_that_are_no_json_objects_are_refused(served: Served, body: bytes) -> None:
    head = (
        f"POST /api/v1/query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    answer = served.raw(head.encode() + body)
    assert status_of(answer) == 400 and b'"usage"' in answer


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % i for i in range(10_000)) + b"\r\n", 431),
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n", 400),
        (
            b"POST /api/v1/query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n",
            400,
        ),
        (
            b"POST /api/v1/query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100000000\r\n\r\n" + b" " * 1_000_000,
            413,
        ),
    ],
    ids=["long header", "many headers", "no version", "future version", "broken chunks", "100 MB"],
)
def test_oversized_and_broken_requests_are_answered_as_such(served: Served, data: bytes, status: int) -> None:
    assert status_of(served.raw(data)) == status
    assert served.json("GET", "/api/v1/health")["status"] == "ok"


def test_binary_garbage_is_cut_off(served: Served) -> None:
    assert b"neither HTTP nor text" in served.raw(b"\x00\x01\x80\xff" * 10 + b"\n")
    assert served.raw(b"\x16\x03\x01\x02\x00\x01\x00") == b""
    assert b"too long" in served.raw(b"x" * 1_000_000)
    assert served.json("GET", "/api/v1/health")["status"] == "ok"


def test_slow_clients_starve_nobody(served: Served) -> None:
    """More half-sent requests than there may be connections: the oldest ones make room."""
    slow = []
    for _ in range(450):
        connection = socket.create_connection(("127.0.0.1", served.port), timeout=5)
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX")
        slow.append(connection)
    started = time.monotonic()
    assert served.json("GET", "/api/v1/health")["status"] == "ok"
    assert time.monotonic() - started < 5
    assert slow[0].recv(1) == b"", "the first of them was sent away"
    for connection in slow:
        connection.close()


def test_a_query_of_a_client_that_has_gone_holds_up_nobody(served: Served) -> None:
    body = json.dumps({"sql": "SELECT count(*) FROM range(100000000000) a"})
    head = (
        f"POST /api/v1/query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    )
    connection = socket.create_connection(("127.0.0.1", served.port), timeout=5)
    connection.sendall(head.encode())
    connection.close()
    started = time.monotonic()
    assert served.json("POST", "/api/v1/query", {"sql": "SELECT 1"})["rows"] == [[1]]
    assert time.monotonic() - started < 8, "it did not wait for the other one's time to run out"


def test_query_results_come_as_the_accept_header_wants(served: Served) -> None:
    question = {"sql": "SELECT 1 AS a, NULL AS b"}
    assert served.json("POST", "/api/v1/query", question)["rows"] == [[1, None]]
    assert served.http("POST", "/api/v1/query", question, Accept="text/csv")[1] in (
        b"a,b\n1,\n",
        b"a,b\r\n1,\r\n",
    )
    arrow = served.http("POST", "/api/v1/query", question, Accept="application/vnd.apache.arrow.stream")
    assert arrow[0] == 200 and arrow[1].startswith(b"\xff\xff\xff\xff")


def test_errors_say_what_where_and_what_next(served: Served) -> None:
    status, content, _ = served.http("POST", "/api/v1/query", {"sql": "SELECT nope"})
    error = json.loads(content)["error"]
    assert status >= 400 and set(error) == {"code", "message", "hint"} and "nope" in error["message"]
    assert served.http("GET", "/api/v1/nothing")[0] == 404
    assert served.http("DELETE", "/api/v1/query")[0] == 405
    assert served.http("GET", "/api/v1/repl")[0] == 426


def test_head_has_no_body_and_keeps_the_connection(served: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    connection.request("HEAD", "/api/v1/health")
    response = connection.getresponse()
    assert response.status == 200 and response.read() == b"" and int(response.headers["Content-Length"]) > 10
    connection.request("GET", "/api/v1/health")
    assert json.loads(connection.getresponse().read())["status"] == "ok"


# ── text for nc ──────────────────────────────────────────────────────────────────────────────


def say(served: Served, *lines: str) -> str:
    return served.raw("".join(line + "\n" for line in lines).encode(), has_more=False).decode()


def test_text_commands(served: Served) -> None:
    assert "SQL" in say(served, "help")
    assert str(served.pid) in say(served, "list")
    assert "inner" in say(served, "bt") and "wait_in_thread" in say(served, "bt")
    assert say(served, "eval 6 * 7") == "42\n"
    assert say(served, "eval print('x'); 1/0").endswith("ZeroDivisionError: division by zero\n")
    assert say(served, "config probing.eval.timeout") == "probing.eval.timeout = 10\n"
    assert "version" in say(served, "status")
    assert "python.backtrace" in say(served, "tables")
    assert "lineno" in say(served, "tables python.backtrace")


def test_text_sql_and_errors(served: Served) -> None:
    table = say(served, "SELECT 1 AS a, 'b' AS c", "quit", "SELECT 2")
    assert "a" in table.splitlines()[0] and "b" in table and "2" not in table
    assert say(served, "SELEC 1").startswith("error: ")
    assert say(served, "eval 1", "use x", "use 1", "eval 1").count("error: ") == 2
    assert say(served, "DELETE FROM x").startswith("error: ")
    assert "42" in say(served, "select 41 + 1")


def test_text_needs_a_token_of_strangers(served: Served) -> None:
    code = (
        "import socket, sys\n"
        f"s = socket.create_connection(('127.0.0.1', {served.port}), timeout=20)\n"
        "s.sendall(sys.argv[1].encode()); s.shutdown(socket.SHUT_WR)\n"
        "print(s.makefile().read(), end='')"
    )
    stranger = next(uids)
    command = ["setpriv", f"--reuid={stranger}", f"--regid={stranger}", "--clear-groups", PYTHON, "-c", code]

    def told(text: str) -> str:
        return subprocess.run([*command, text], capture_output=True, text=True, timeout=30).stdout

    assert told("list\neval 1\n").startswith("error: this server answers its owner only")
    assert told("token wrong\n").startswith("error: this is not a token")
    assert told(f"token {served.token}\neval 6 * 7\n") == "42\n"


# ── machines ─────────────────────────────────────────────────────────────────────────────────


def test_metrics_are_in_the_format_of_prometheus(served: Served) -> None:
    status, content, headers = served.http("GET", "/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    text = content.decode()
    assert f'probing_process_resident_memory_bytes{{pid="{served.pid}"' in text
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")]
    assert len(names) == len(set(names)) and "probing_targets" in names
    for line in text.splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert name.split("{")[0] in names
            float(value)


def test_the_openapi_document_names_what_there_is(served: Served) -> None:
    document = served.json("GET", "/api/v1/openapi.json")
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if path in ("/api/v1/events", "/api/v1/repl"):
                continue  # they go on, or want a WebSocket
            status, content, headers = served.http(method.upper(), path, {} if method == "post" else None)
            assert str(status) in operation["responses"], (path, status, content)
            kind = headers["Content-Type"].split(";")[0]
            if status == 200:
                assert kind in operation["responses"]["200"]["content"], path
            elif status >= 400 and path != "/mcp":
                assert set(json.loads(content)["error"]) == {"code", "message", "hint"}


def test_events_follow_the_targets(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        connection.sendall(b"GET /api/v1/events?interval=0.1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        lines = connection.makefile()
        assert lines.readline().startswith("HTTP/1.1 200")
        assert next(line for line in lines if line.startswith("event: ")) == "event: targets\n"
        assert str(served.pid) in lines.readline()
        newcomer = served.user.probed_target()
        wait_until(lambda: str(newcomer.pid) in lines.readline(), 10, "the newcomer is told of")
    newcomer.kill()
    newcomer.wait()


def test_events_repeat_a_query(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        path = "/api/v1/events?interval=0.1&sql=SELECT%207%20AS%20x"
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        lines = connection.makefile()
        for _ in range(2):
            assert next(line for line in lines if line.startswith("event: ")) == "event: rows\n"
            assert json.loads(lines.readline().removeprefix("data: "))["rows"] == [[7]]
    assert served.http("GET", "/api/v1/events?sql=SELEC")[0] >= 400
    assert served.http("GET", "/api/v1/events?interval=x")[0] == 400


class WebSocket:
    """Just enough of RFC 6455 to talk to our own server."""

    def __init__(self, served: Served, path: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", served.port), timeout=20)
        self._socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {served.address}\r\nOrigin: http://{served.address}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        self._file = self._socket.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        while self._file.readline() not in (b"\r\n", b""):
            pass

    def send(self, message: Any) -> None:
        data = json.dumps(message).encode()
        assert len(data) < 126
        self._socket.sendall(bytes([0x81, 0x80 | len(data), 0, 0, 0, 0]) + data)

    def receive(self) -> Any:
        _, size = self._file.read(2)
        if size == 126:
            size = int.from_bytes(self._file.read(2), "big")
        return json.loads(self._file.read(size))

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def test_a_repl_over_a_websocket(served: Served) -> None:
    repl = WebSocket(served, f"/api/v1/repl?target={served.pid}")
    assert repl.status == 101
    repl.send({"id": 1, "code": "6 * 7"})
    answer = repl.receive()
    assert (answer["id"], answer["value"], answer["outcome"]) == (1, "42", "ok")
    repl.send({"code": "while True: pass", "timeout": 20})
    repl.send({"interrupt": True})
    assert repl.receive()["outcome"] == "interrupted"
    repl.send({"code": "'still ' + 'here'"})
    assert repl.receive()["value"] == "'still here'"
    repl.close()


def test_a_repl_needs_a_target(served: Served) -> None:
    repl = WebSocket(served, "/api/v1/repl")
    assert repl.receive()["error"]["code"] == "usage"
    repl.close()


def test_agents_can_look_but_not_touch(served: Served) -> None:
    def call(method: str, **parameters: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": parameters}
        answer = served.json("POST", "/mcp", body, Accept="application/json, text/event-stream")
        assert answer["id"] == 7
        return answer

    hello = call("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "x"})
    assert hello["result"]["protocolVersion"] == "2025-06-18"
    notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert served.http("POST", "/mcp", notification)[:2] == (202, b"")
    names = [tool["name"] for tool in call("tools/list")["result"]["tools"]]
    assert names == ["targets", "query", "tables", "backtrace", "flamegraph"]
    stacks = call("tools/call", name="backtrace", arguments={"target": served.pid})["result"]
    assert not stacks["isError"] and "inner" in stacks["content"][0]["text"]
    rows = call("tools/call", name="query", arguments={"sql": "SELECT 42 AS x"})["result"]
    assert "42" in rows["content"][0]["text"]
    wrong = call("tools/call", name="query", arguments={"sql": "SELEC"})["result"]
    assert wrong["isError"]
    hot = call("tools/call", name="flamegraph", arguments={"target": served.pid, "seconds": 0.3})["result"]
    assert "inner" in hot["content"][0]["text"]
    assert "error" in call("tools/call", name="eval", arguments={"target": served.pid, "code": "1"})
    assert "error" in call("nothing")


def test_agents_may_touch_when_granted(user: User) -> None:
    port = free_port()
    target = user.probed_target()
    user("serve", "--listen", port, "--background").expect(0)
    user("config", "probing.mcp.eval=true").expect(0)
    served = Served(user, port, target.pid, "")
    parameters = {"name": "eval", "arguments": {"target": target.pid, "code": "6 * 7"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": parameters}
    assert '"42"' in served.json("POST", "/mcp", body)["result"]["content"][0]["text"]


def test_many_clients_at_once_are_all_answered(served: Served) -> None:
    failures = []

    def ask() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
        for _ in range(20):
            connection.request("GET", "/api/v1/health")
            if json.loads(connection.getresponse().read())["status"] != "ok":
                failures.append(1)

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
