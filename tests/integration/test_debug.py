"""`probing debug`: one thread is held at a line, all others run, and nothing stays behind."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from harness import BIN, TARGETS, Cli, Target, clean_environment, pythons, version_of, wait_until
from terminal import Terminal

StartTarget = Callable[..., Target]
Start = Callable[[Target], Terminal]
PROMPT = r"\(probing\) "
SOURCE = (TARGETS / "target_training.py").read_text().splitlines()
UPDATE_LINE = 1 + next(i for i, line in enumerate(SOURCE) if "# the update" in line)
WANTED = ((3, 8), (3, 11), (3, 12), (3, 13))
VERSIONS = [python for python in pythons() if version_of(python)[:2] in WANTED and not python.endswith("t")]


@pytest.fixture
def debug(terminal: Callable[..., Terminal]) -> Start:
    return lambda target, *arguments: terminal(PROMPT, "-t", target.pid, "debug", *arguments)


def stands_still(job: Target) -> bool:
    """The main thread is held and the other one is not."""
    before = job.report()
    job.expect_progress("others")
    job.expect_progress("others")
    return job.report()["steps"] == before["steps"]


@pytest.mark.parametrize("python", VERSIONS)
def test_a_training_loop_is_paused_changed_and_goes_on(
    training: Callable[..., Target], debug: Start, python: str
) -> None:
    job = training(python)
    session = debug(job)
    assert stands_still(job)
    session.ask("where", r"train \(.*target_training\.py")
    session.ask(f"tbreak target_training.py:{UPDATE_LINE}", PROMPT)
    session.ask("continue", rf"breakpoint 1.*target_training\.py:{UPDATE_LINE} in train")
    session.expect(PROMPT)
    session.ask("print loss", r"\d+\.\d+")
    session.ask("print model.weight", r"\d+\.\d+")
    session.ask("list", rf"{UPDATE_LINE} ->")
    session.ask("locals", r"gradient = 1\.0")
    session.ask("next", rf"target_training\.py:{UPDATE_LINE + 1} in train")
    session.expect(PROMPT)
    session.ask("lr = 0.5", PROMPT)
    session.ask("print lr", r"0\.5")
    session.ask("detach", "goes on")
    assert session.wait() == 0
    wait_until(lambda: job.report()["rate"] == 500, 10, "the run goes on with the changed rate")
    job.expect_progress("steps")


@pytest.mark.parametrize("python", VERSIONS)
def test_step_goes_into_calls_and_return_out_of_them(
    training: Callable[..., Target], debug: Start, python: str
) -> None:
    session = debug(training(python))
    session.ask(f"tbreak target_training.py:{UPDATE_LINE}", PROMPT)
    session.ask("continue", "breakpoint")
    session.expect(PROMPT)
    session.ask("step", r"in update\(\)")
    session.expect(PROMPT)
    session.ask("up", r"in train\(\)")
    session.ask("down", r"in update\(\)")
    session.ask("return", r"in train\(\)")


def test_a_condition_decides_whether_a_breakpoint_stops(
    training: Callable[..., Target], debug: Start
) -> None:
    job = training()
    session = debug(job)
    session.ask("print step", r"\d+")
    at = job.report()["steps"] + 50
    session.ask(f"break target_training.py:{UPDATE_LINE} if step == {at}", PROMPT)
    session.ask("continue", "breakpoint 1")
    session.expect(PROMPT)
    session.ask("print step", rf"{at}\n")
    session.ask("break", r"hits 1")
    session.ask("clear all", PROMPT)
    session.ask("nonsense +", "SyntaxError")
    session.ask("clear 9", "no breakpoint 9")


@pytest.mark.parametrize("word", ["", "continue", "next"])
@pytest.mark.parametrize("python", [VERSIONS[0], VERSIONS[-1]])
def test_a_killed_client_leaves_the_run_going(
    training: Callable[..., Target], debug: Start, python: str, word: str
) -> None:
    job = training(python)
    session = debug(job)
    session.ask(f"break target_training.py:{UPDATE_LINE}", PROMPT)
    if word:
        session.send(word + "\r")
    session.kill()
    wait_until(lambda: (job.report()["steps"], job.expect_progress("steps", 15))[0], 20, "it goes on")
    before = job.report()["steps"]
    wait_until(lambda: job.report()["steps"] > before + 100, 20, "nothing holds it any more")


def test_a_second_debugger_is_refused(probing: Cli, training: Callable[..., Target], debug: Start) -> None:
    job = training()
    debug(job)
    answer = probing("-t", job.pid, "debug", stdin="where\n")
    assert answer.code == 1
    assert "another debugger" in answer.stderr


def test_it_does_not_hold_longer_than_it_may(
    probing: Cli, training: Callable[..., Target], debug: Start
) -> None:
    job = training()
    probing("-t", job.pid, "config", "probing.debug.max_pause=1").expect(0)
    session = debug(job)
    before = job.report()["steps"]
    wait_until(lambda: job.report()["steps"] > before + 10, 20, "the deadline passes and it goes on")
    session.ask("where", "not attached")


def test_eject_lets_a_held_thread_go(probing: Cli, training: Callable[..., Target], debug: Start) -> None:
    job = training()
    debug(job)
    probing("-t", job.pid, "eject").expect(0)
    job.expect_progress("steps")


def test_the_older_name_pauses(probing: Cli, target: StartTarget) -> None:
    job = target("training")
    answer = probing("--pause", job.pid, program="probe", stdin="where\nprint lr\n")
    assert "train (" in answer.expect(0).stdout
    assert "0.001" in answer.stdout
    job.expect_progress("steps")


# ── the Debug Adapter Protocol ───────────────────────────────────────────────────────────────


class Editor:
    """A scripted client of the protocol."""

    def __init__(self, port: int) -> None:
        self._file = socket.create_connection(("127.0.0.1", port), timeout=20).makefile("rwb")
        self._sequence = 0
        self._events: list[dict[str, Any]] = []

    def _receive(self) -> dict[str, Any]:
        size = 0
        while (line := self._file.readline().strip()) != b"":
            size = int(line.split(b": ")[1])
        return json.loads(self._file.read(size))

    def request(self, command: str, **arguments: Any) -> dict[str, Any]:
        self._sequence += 1
        body = json.dumps(
            {"seq": self._sequence, "type": "request", "command": command, "arguments": arguments}
        ).encode()
        self._file.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._file.flush()
        while (message := self._receive())["type"] == "event":
            self._events.append(message)
        assert message["request_seq"] == self._sequence
        assert message["success"], message
        return message.get("body", {})

    def event(self, name: str) -> dict[str, Any]:
        while not any(message["event"] == name for message in self._events):
            self._events.append(self._receive())
        found = next(message for message in self._events if message["event"] == name)
        self._events.remove(found)
        return found["body"]


def test_an_editor_attaches_by_the_debug_adapter_protocol(training: Callable[..., Target]) -> None:
    job = training()
    command = [str(BIN / "probing"), "-t", str(job.pid), "debug", "--dap", "0"]
    adapter = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=clean_environment())
    assert adapter.stdout is not None
    editor = Editor(int(adapter.stdout.readline().split(":")[1]))
    assert editor.request("initialize", adapterID="probing")["supportsConditionalBreakpoints"]
    editor.request("attach")
    editor.event("initialized")
    editor.event("stopped")
    path = str(TARGETS / "target_training.py")
    points = editor.request(
        "setBreakpoints", source={"path": path}, breakpoints=[{"line": UPDATE_LINE}, {"line": 5000}]
    )["breakpoints"]
    assert [point["verified"] for point in points] == [True, False]
    editor.request("configurationDone")
    editor.request("continue", threadId=1)
    assert editor.event("stopped")["reason"] == "breakpoint"
    assert {thread["name"] for thread in editor.request("threads")["threads"]} == {"MainThread", "other"}
    frames = editor.request("stackTrace", threadId=1)["stackFrames"]
    assert frames[0]["name"] == "train"
    assert frames[0]["line"] == UPDATE_LINE
    scope = editor.request("scopes", frameId=frames[0]["id"])["scopes"][0]
    variables = editor.request("variables", variablesReference=scope["variablesReference"])["variables"]
    by_name = {variable["name"]: variable for variable in variables}
    assert by_name["lr"]["value"] == "0.001"
    inside = editor.request("variables", variablesReference=by_name["model"]["variablesReference"])
    assert inside["variables"][0]["name"] == "weight"
    assert editor.request("evaluate", expression="lr * 2", frameId=frames[0]["id"])["result"] == "0.002"
    editor.request("next", threadId=1)
    assert editor.event("stopped")["reason"] == "step"
    editor.request("disconnect")
    assert adapter.wait(20) == 0
    adapter.stdout.close()
    job.expect_progress("steps")
