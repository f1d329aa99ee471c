"""probingd on the network for programs: text lines, metrics, events, WebSockets, agents."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import threading
import urllib.parse
from typing import Any

from harness import wait_until
from serving import Served
from users import PYTHON, User, free_port, uids

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


def test_a_last_line_needs_no_end_and_the_conversation_ends_with_it(served: Served) -> None:
    assert "4711" in served.raw(b"select 4711", has_more=False, timeout=10).decode()
    assert served.raw(b"G", has_more=False, timeout=10).startswith(b"error: ")


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


def test_the_source_of_what_runs_is_shown_and_of_nothing_else(user: User) -> None:
    port = free_port()
    user("serve", "--listen", port, "--background").expect(0)
    program, secret = user.folder / "program.py", user.folder / "secret.py"
    program.write_text(
        "import time\ndef wait():\n    print('ready', flush=True)\n    time.sleep(600)\nwait()\n"
    )
    secret.write_text("password = 1\n")
    target = user.target(f"exec(compile(open({str(program)!r}).read(), {str(program)!r}, 'exec'))")
    served = Served(user, port, target.pid, "")
    place = f"/api/v1/source?target={target.pid}&file="
    source = served.json("GET", f"{place}{program}&line=4&around=1")
    assert source == {
        "file": str(program),
        "first_line": 3,
        "lines": ["    print('ready', flush=True)", "    time.sleep(600)", "wait()"],
    }
    for other in (secret, "/etc/passwd", f"{user.folder}/../{user.folder.name}/program.py", "<string>"):
        assert served.http("GET", f"{place}{other}")[0] == 404
    assert served.http("GET", f"{place}{program}&line=x")[0] == 400


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


def test_events_tell_which_of_several_queries_changed(served: Served) -> None:
    queries = {"same": "SELECT 7 AS x", "clock": "SELECT epoch_ns(now()) AS x"}
    path = "/api/v1/events?interval=0.1&queries=" + urllib.parse.quote(json.dumps(queries))
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        lines = connection.makefile()
        told = []
        for _ in range(2):
            assert next(line for line in lines if line.startswith("event: ")) == "event: results\n"
            told.append(json.loads(lines.readline().removeprefix("data: ")))
    assert set(told[0]) == {"same", "clock"} and set(told[1]) == {"clock"}
    assert told[0]["same"]["rows"] == [[7]]
    for wrong in ("[]", "{}", '{"a": 1}', "x", '{"a": "SELEC"}'):
        assert served.http("GET", "/api/v1/events?queries=" + urllib.parse.quote(wrong))[0] >= 400


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
    assert names == ["targets", "query", "tables", "backtrace", "flamegraph", "diagnose"]
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


def test_agents_that_start_their_tools_are_answered_on_stdout(served: Served) -> None:
    def say(**message: object) -> str:
        return json.dumps({"jsonrpc": "2.0", **message}) + "\n"

    lines = say(id=1, method="initialize", params={}) + say(method="notifications/initialized")
    lines += say(id=2, method="tools/call", params={"name": "query", "arguments": {"sql": "SELECT 40 + 2"}})
    command = [*served.user.prefix, str(served.user.bin / "probing"), "mcp"]
    done = subprocess.run(
        command, input=lines + "nonsense\n[1]\n\n", capture_output=True, text=True, timeout=30
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and [answer["id"] for answer in answers] == [1, 2, None, None]
    assert answers[0]["result"]["serverInfo"]["name"] == "probing"
    assert "42" in answers[1]["result"]["content"][0]["text"]
    assert [answer["error"]["code"] for answer in answers[2:]] == [-32700, -32600]


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
