"""probingd on the network: what attackers try, and what they get instead. The job never notices."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time
from collections.abc import Iterator

import pytest
from harness import wait_until
from serving import Served, as_stranger, status_of


@pytest.fixture(autouse=True)
def the_server_goes_on_and_the_job_is_untouched(served: Served) -> Iterator[None]:
    """After every attack: the same daemon answers, and the target still runs its three threads."""
    before = served.user("status", "--json").expect(0).json["pid"]
    yield
    assert served.json("GET", "/api/v1/health") | {"version": ""} == {
        "status": "ok",
        "version": "",
        "pid": before,
    }
    stacks = served.json("GET", f"/api/v1/backtrace?target={served.pid}")
    assert "wait_in_thread" in str(stacks) and "inner" in str(stacks)


def head(*fields: str, path: str = "/api/v1/health", method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", *fields, "Connection: close", "", ""]).encode("latin-1")


def post(*fields: str, body: bytes = b"") -> bytes:
    return (
        head(
            "Host: 127.0.0.1",
            "Content-Type: application/json",
            *fields,
            path="/api/v1/query",
            method="POST",
        )
        + body
    )


# ── strangers ────────────────────────────────────────────────────────────────────────────────


def test_a_wrong_token_is_no_better_than_none(served: Served) -> None:
    for path in ("/", "/api/v1/targets", "/metrics", "/mcp"):
        status, text = as_stranger(served, "Authorization: Bearer " + "0" * 64, path=path)
        assert status == 401 and "not a token of this server" in text and str(served.pid) not in text
    status, text = as_stranger(served, "Cookie: probing_session=" + "0" * 64)
    assert status == 401 and "probing token" in text


# ── other sites in the user's browser ────────────────────────────────────────────────────────

REBOUND = [
    "127.0.0.1.evil",
    "127.0.0.1.evil:80",
    "localhost6",
    "localhost.evil",
    "10.0.2.555",
    "0177.0.0.1",
    "127.0.0.01",
    "0x7f.0.0.1",
    "2130706433",
    "127.1",
    "evil@127.0.0.1",
    "127.0.0.1@evil",
    "127.0.0.1:80:80",
    "127.0.0.1:x",
    "[::1",
    "[::1]evil",
    "[::1%25lo]",
    "10.0.2.15",
    "0.0.0.0",
    "evil",
    "",
]


@pytest.mark.parametrize("host", REBOUND)
def test_a_name_that_was_rebound_to_this_machine_is_refused(served: Served, host: str) -> None:
    answer = served.raw(head(f"Host: {host}"))
    assert status_of(answer) == 421 and b"is not known as" in answer, answer
    assert b'"status"' not in answer


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:3344", "[::1]:80"])
def test_the_names_of_this_machine_are_accepted(served: Served, host: str) -> None:
    assert status_of(served.raw(head(f"Host: {host}"))) == 200


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        (["Host: 127.0.0.1", "Host: evil"], "/api/v1/health"),
        (["Host: 127.0.0.1", "Host: 127.0.0.1"], "/api/v1/health"),
        ([], "/api/v1/health"),
        (["Host: 127.0.0.1"], "http://127.0.0.1/api/v1/health"),
        (["Host: 127.0.0.1"], "http://evil/api/v1/health"),
        (["Host: 127.0.0.1"], "//evil/api/v1/health"),
    ],
    ids=["two hosts", "the same twice", "no host", "absolute form", "absolute, elsewhere", "two slashes"],
)
def test_a_request_says_once_and_plainly_whom_it_asks(served: Served, fields: list[str], path: str) -> None:
    answer = served.raw(head(*fields, path=path))
    assert status_of(answer) == 400 and b'"usage"' in answer and b'"status"' not in answer, answer


@pytest.mark.parametrize(
    "fields",
    [
        ["Origin: http://evil"],
        ["Origin: null"],
        ["Origin: http://127.0.0.1.evil"],
        ["Origin: http://127.0.0.1:1"],
        ["Origin: 127.0.0.1"],
        ["Sec-Fetch-Site: cross-site"],
        ["Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: cors"],
        ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
def test_other_sites_cannot_use_the_users_browser(served: Served, fields: list[str], method: str) -> None:
    answer = served.raw(head("Host: 127.0.0.1", *fields, method=method))
    assert status_of(answer) == 403 and b"Access-Control-Allow" not in answer, answer


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_what_a_form_can_send_is_refused(served: Served, kind: str) -> None:
    fields = ["Host: 127.0.0.1", f"Content-Type: {kind}", "Content-Length: 2"]
    for path in ("/mcp", "/api/v1/eval", "/api/v1/query"):
        assert status_of(served.raw(head(*fields, path=path, method="POST") + b"{}")) == 415


@pytest.mark.parametrize(
    "field",
    ["Origin: http://evil", "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-origin"],
)
def test_a_websocket_of_another_site_is_refused(served: Served, field: str) -> None:
    upgrade = (
        f"GET /api/v1/repl?target={served.pid} HTTP/1.1\r\nHost: {served.address}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    )
    answer = served.raw(f"{upgrade}{field}\r\n\r\n".encode())
    assert status_of(answer) == 403 and b'"permission"' in answer


# ── what is no request ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/proc/self/environ",
        "/assets/passwd",
    ],
)
def test_there_are_no_files_but_the_pages(served: Served, path: str) -> None:
    answer = served.raw(head("Host: 127.0.0.1", path=path))
    assert status_of(answer) == 404 and b"root:" not in answer and b"PATH=" not in answer


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..%2fetc/passwd",
        "/..%5cetc%5cpasswd",
        "/%252e%252e/etc/passwd",
        "/assets/../../etc/passwd",
        "/x%00.js",
        "/index.html%00",
        "/api/v1/../../etc/passwd",
        "/%61pi/v1/health",
        "/api%2fv1/health",
        "/api/v1//health",
        "/api/v1/./health",
        "/api/v1/health/",
        "/api/v1/health;x",
        "/api\\v1\\health",
        "/api/v1/health?x=%zz",
        "/api/v1/health?x=1&x=2",
    ],
)
def test_what_can_be_read_in_two_ways_is_no_path(served: Served, path: str) -> None:
    answer = served.raw(head("Host: 127.0.0.1", path=path))
    assert status_of(answer) == 400 and b'"usage"' in answer, answer
    assert b'"status"' not in answer and b"root:" not in answer


@pytest.mark.parametrize("path", ["/metrics", "/%61pi/v1/events?sql=SELECT+1", "/api/v1/events?sql=SELECT+1"])
def test_a_link_of_another_site_leads_to_the_page_and_nowhere_else(served: Served, path: str) -> None:
    link = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"]
    assert status_of(served.raw(head("Host: 127.0.0.1", *link, path=path))) in (400, 403)
    assert status_of(served.raw(head("Host: 127.0.0.1", *link, path="/"))) == 200


def test_a_browser_that_hides_the_site_that_asks_is_refused(served: Served) -> None:
    """Sec-Fetch-Site is sent to https and to this machine only; a GET has no Origin."""
    browser = ["Host: 127.0.0.1", "User-Agent: Mozilla/5.0 (X11; Linux x86_64)"]
    assert status_of(served.raw(head(*browser))) == 403
    assert status_of(served.raw(head(*browser, "Referer: http://evil/"))) == 403
    assert status_of(served.raw(head(*browser, "Referer: http://127.0.0.1/"))) == 200


def test_the_lines_of_a_request_with_another_method_are_no_commands(served: Served) -> None:
    """Nobody types this: a proxy or a browser passes on what somebody else wrote."""
    answer = served.raw(b"PROPFIND / HTTP/1.1\r\nHost: evil\r\n\r\nSELECT 6 * 7 AS x\n")
    assert b"42" not in answer and b"neither HTTP nor text" in answer
    assert b"42" in served.raw(b"SELECT 6 * 7 AS x\nquit\n")


def test_sql_that_is_wrong_is_the_callers_mistake(served: Served) -> None:
    for sql, code in (
        ("SELEC 1", b'"usage"'),
        ("SELECT nope", b'"usage"'),
        ("SELECT * FROM nope", b'"usage"'),
        ("SELECT 'x'::INT", b'"failed"'),
        ("SELECT * FROM range(2000000)", b'"failed"'),
    ):
        body = json.dumps({"sql": sql}).encode()
        answer = served.raw(post(f"Content-Length: {len(body)}", body=body))
        assert status_of(answer) == 400 and code in answer, (sql, answer)


def test_no_function_spoils_the_engine_for_others(served: Served) -> None:
    for call in ("enable_profiling(save_location='/nowhere/x')", "enable_peg_parser()", "enable_logging()"):
        body = json.dumps({"sql": f"SELECT * FROM {call}"}).encode()
        answer = served.raw(post(f"Content-Length: {len(body)}", body=body))
        assert status_of(answer) == 403 and b"is not allowed" in answer, answer
        after = b'{"sql": "SELECT 6 * 7 AS x"}'
        assert b"42" in served.raw(post(f"Content-Length: {len(after)}", body=after))


@pytest.mark.parametrize("body", [b"{", b"[1]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000])
def test_bodies_that_are_no_json_objects_are_refused(served: Served, body: bytes) -> None:
    answer = served.raw(post(f"Content-Length: {len(body)}", body=body))
    assert status_of(answer) == 400 and b'"usage"' in answer


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (head("Host: 127.0.0.1", "X: " + "a" * 100_000), 431),
        (head("Host: 127.0.0.1", *(f"X{i}: y" for i in range(10_000))), 431),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 431),
        (post("Content-Length: 100000000", body=b" " * 1_000_000), 413),
        (post("Transfer-Encoding: chunked", body=b"5f5e100\r\n" + b" " * 1_000_000), 413),
        (post("Content-Length: 99999999999999999999"), 400),
    ],
    ids=["a long header", "many headers", "a long path", "100 MB", "100 MB in a chunk", "10^20 bytes"],
)
def test_what_is_too_much_is_cut_off(served: Served, data: bytes, status: int) -> None:
    answer = served.raw(data)
    assert status_of(answer) == status and b'{"error"' in answer


def test_100_mb_in_small_chunks_are_cut_off_at_the_limit(served: Served) -> None:
    sent = 0
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        connection.sendall(post("Transfer-Encoding: chunked"))
        while sent < 100_000_000 and not select.select([connection], [], [], 0)[0]:
            connection.sendall(chunk)
            sent += 0x10000
        assert status_of(connection.recv(65536)) == 413
    assert 30_000_000 < sent < 90_000_000, "the limit, and what sockets hold"


@pytest.mark.parametrize(
    "data",
    [
        post("Transfer-Encoding: chunked", body=b"nonsense\r\n"),
        post("Transfer-Encoding: chunked", body=b"-1\r\n{}\r\n0\r\n\r\n"),
        post("Transfer-Encoding: chunked", body=b"0x2\r\n{}\r\n0\r\n\r\n"),
        post("Transfer-Encoding: chunked", body=b"fffffffffffffffff\r\n{}"),
        post("Transfer-Encoding: chunked", body=b"2\r\n{}xx0\r\n\r\n"),
        post("Transfer-Encoding: chunked", "Content-Length: 2", body=b"2\r\n{}\r\n0\r\n\r\n"),
        post("Content-Length: 2", "Content-Length: 3", body=b"{} "),
        post("Content-Length: -2", body=b"{}"),
        post("Content-Length: 2x", body=b"{}"),
        b"GET /\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\nHost: 127.0.0.1\n\n",
    ],
    ids=[
        "no number",
        "a negative chunk",
        "0x",
        "more than 64 bits",
        "no end of chunk",
        "chunks and a length",
        "two lengths",
        "a negative length",
        "no length",
        "no version",
        "a future version",
        "a blank before the colon",
        "no colon",
        "bare line feeds",
    ],
)
def test_broken_chunks_lengths_and_lines_are_answered_as_such(served: Served, data: bytes) -> None:
    answer = served.raw(data)
    assert status_of(answer) == 400 and b"this is not HTTP" in answer, answer


def test_requests_cannot_be_smuggled_behind_another(served: Served) -> None:
    """Whoever sees another end of the body would take the rest for a request: the connection ends instead."""
    smuggled = b"GET /api/v1/targets HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    for first in (
        post("Transfer-Encoding: chunked", "Content-Length: 4", body=b"0\r\n\r\n"),
        post("Transfer-Encoding: xchunked", "Content-Length: 0"),
    ):
        answer = served.raw(first.replace(b"Connection: close\r\n", b"") + smuggled)
        assert answer.count(b"HTTP/1.1 ") == 1 and b'"targets"' not in answer, answer


def test_binary_garbage_is_cut_off(served: Served) -> None:
    assert b"neither HTTP nor text" in served.raw(b"\x00\x01\x80\xff" * 10 + b"\n")
    assert served.raw(b"\x16\x03\x01\x02\x00\x01\x00") == b""
    assert b"too long" in served.raw(b"x" * 1_000_000)
    assert status_of(served.raw(b"GET / HTTP/1.1\r\n" + bytes(range(256)) + b"\r\n\r\n")) == 400


# ── slow ones ────────────────────────────────────────────────────────────────────────────────


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


def test_a_request_that_trickles_in_is_cut_off(served: Served) -> None:
    """A byte now and then does not put off the end: ten seconds for the head, whatever comes."""
    answer = b""
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        connection.setblocking(False)

        def is_cut_off() -> bool:
            nonlocal answer
            with contextlib.suppress(BlockingIOError):
                answer += connection.recv(65536)
            if not answer:
                connection.send(b"a")
            return b"\r\n\r\n" in answer

        wait_until(is_cut_off, 20, "it is cut off")
    assert status_of(answer) == 408 and b"did not come in time" in answer
