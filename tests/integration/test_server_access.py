"""probingd on the network: who gets in, and what attackers get instead."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import time

import pytest
from harness import Cli
from serving import Served, as_stranger, status_of
from users import User, free_port, uids

# ── who gets in ──────────────────────────────────────────────────────────────────────────────


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
    assert '"action":"probed"' in log and f'"target":{target.pid}' in log
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
