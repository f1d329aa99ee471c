"""probingd on the network: who gets in, with which rights, and what goes in and out."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import time

from harness import Cli
from serving import Served, as_stranger
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


def test_the_owner_may_give_up_rights_over_tcp(user: User) -> None:
    """probing.server.rights: also for who needs no token; the unix socket has them all."""
    target = user.probed_target()
    address = f"127.0.0.1:{free_port()}"
    user("serve", "--listen", address, "--background").expect(0)
    assert user("-t", f"{address}/{target.pid}", "eval", "1 + 1").expect(0).stdout == "2\n"
    user("config", "probing.server.rights=read").expect(0)
    assert user("-t", f"{address}/{target.pid}", "eval", "1 + 1").code == 3
    user("-t", f"{address}/{target.pid}", "backtrace").expect(0)
    assert user("-t", target.pid, "eval", "1 + 1").expect(0).stdout == "2\n"


def test_rights_are_told_apart(served: Served) -> None:
    tokens = served.user("token", "--json").expect(0).json
    stranger = User(Cli(served.user.bin), next(uids))
    for right, allowed in (("read", 0), ("profile", 1), ("eval", 2)):
        commands = [["backtrace"], ["record", "-d", "0.1", "-f", "collapsed", "-o", "-"], ["eval", "1"]]
        codes = [
            stranger("-t", served.address, *command, PROBING_TOKEN=tokens[right]).code for command in commands
        ]
        assert codes == [0 if i <= allowed else 3 for i in range(3)], right
        native = stranger(
            *("-t", served.address, "query", "SELECT count(*) > 0 AS x FROM python.native_stacks"),
            *("-f", "csv"),
            PROBING_TOKEN=tokens[right],
        )
        assert native.stdout.split() == (["x", "true"] if allowed else []), native.stderr
        assert ("right to profile" in native.stderr) == (allowed == 0)
    headers = {"Authorization": f"Bearer {tokens['eval']}"}
    assert served.http("POST", "/api/v1/shutdown", {}, **headers)[0] == 403, "not over the network"
    assert served.http("GET", "/api/v1/token", **headers)[0] == 403
    log = (served.user.folder / "audit.jsonl").read_text()
    assert "/api/v1/eval takes the right to eval; this request may profile" in log
    assert "/api/v1/token takes the right to own" in log


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
    guesser = next(uids)
    codes = [as_stranger(served, wrong, uid=guesser)[0] for _ in range(11)]
    assert codes == [401] * 10 + [429]
    right = "Authorization: Bearer " + user("token").expect(0).stdout.strip()
    assert as_stranger(served, right, uid=guesser)[0] == 429
    assert as_stranger(served, right)[0] == 200, "nobody else has to wait"
    user("status").expect(0)
    log = [json.loads(line) for line in (user.folder / "audit.jsonl").read_text().splitlines()]
    refused = [line for line in log if line["action"] == "refused"]
    assert len(refused) == 12 and all(f"uid {guesser}" in line["by"] for line in refused)
    assert (user.folder / "audit.jsonl").stat().st_mode & 0o777 == 0o600
    assert (user.folder / "token").stat().st_mode & 0o777 == 0o600


def test_evaluations_and_settings_are_noted(user: User) -> None:
    target = user.probed_target()
    user("-t", target.pid, "eval", "'mark' + 'er'").expect(0)
    user("config", "probing.loglevel=info").expect(0)
    log = (user.folder / "audit.jsonl").read_text()
    assert '"action":"probed"' in log and f'"target":{target.pid}' in log
    assert "'mark' + 'er'" in log and "probing.loglevel" in log and f"uid {user.uid}" in log


# ── what comes in, what goes out ─────────────────────────────────────────────────────────────


def test_answers_carry_the_headers_that_browsers_heed(served: Served) -> None:
    _, _, headers = served.http("GET", "/")
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"


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


def test_a_body_may_come_in_chunks_and_requests_one_behind_the_other(served: Served) -> None:
    head = b"POST /api/v1/query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    chunks = b"Transfer-Encoding: chunked\r\n\r\n8;a=b\r\n" + b'{"sql": ' + b"\r\n"
    chunks += b"d\r\n" + b'"SELECT 4711"' + b"\r\n1\r\n}\r\n0\r\n\r\n"
    health = b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    answer = served.raw(head + chunks + health + b"\r\n" + health + b"Connection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 OK") == 3
    assert b"[4711]]" in answer.split(b"HTTP/1.1 200 OK")[1]
