"""`probing debug`: one thread is held at a line, all others run, and nothing stays behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import BIN, ROOT, TARGETS, Cli, Target, clean_environment, version_of, wait_until, wanted_pythons
from terminal import Terminal

StartTarget = Callable[..., Target]
Start = Callable[[Target], Terminal]
PROMPT = r"\(probing\) "
SOURCE = (TARGETS / "target_training.py").read_text().splitlines()
UPDATE_LINE = 1 + next(i for i, line in enumerate(SOURCE) if "# the update" in line)
WANTED = ((3, 8), (3, 11), (3, 12), (3, 13))
VERSIONS = wanted_pythons(lambda one: version_of(one)[:2] in WANTED and not one.endswith("t"))


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
def test_an_exception_of_the_jobs_signal_handler_reaches_the_job(
    training: Callable[..., Target], debug: Start, python: str
) -> None:
    job = training(python)
    session = debug(job)
    assert stands_still(job)
    os.kill(job.pid, signal.SIGUSR1)
    wait_until(lambda: job.report()["interrupts"] == 1, 10, "the handler's exception is raised in train()")
    job.expect_progress("steps")
    session.ask("where", "not attached .any more.: the thread runs")
    session.wait()
    again = debug(job)
    assert stands_still(job)
    again.ask("detach", "goes on")
    job.expect_progress("steps")


def test_the_learning_rate_of_a_torch_optimizer_is_changed(
    probing: Cli, target: StartTarget, debug: Start
) -> None:
    python = ROOT / "build/torch-venv/bin/python"
    if not python.exists():
        pytest.skip("needs torch in build/torch-venv (1 GB)")
    job = target("torch_train", 1, python=str(python))
    probing("-t", job.pid, "inject").expect(0)
    session = debug(job)
    session.ask("break step", PROMPT)
    session.ask("continue", r"breakpoint 1.*in step\(\)")
    session.expect(PROMPT)
    session.ask("print model[0].weight", r"tensor\(shape=\[8, 3, 3, 3\].*requires_grad=True, min=")
    session.ask("next", r"in step\(\)")
    session.expect(PROMPT)
    session.ask("next", r"loss\.backward\(\)")
    session.expect(PROMPT)
    session.ask("print loss", r"tensor\(\d+\.\d+, grad_fn=")
    session.ask("optimizer.param_groups[0]['lr'] = 0.5", PROMPT)
    session.ask("detach", "goes on")
    assert session.wait() == 0
    job.expect_progress("steps")
    rate = "optimizer.param_groups[0]['lr']"
    assert probing("-t", job.pid, "eval", rate).expect(0).stdout == "0.5\n"


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


# What was done before the client was killed.
POINTS = (
    (),
    ("print loss", "print model.weight"),
    (f"break target_training.py:{UPDATE_LINE}",),
    (f"tbreak target_training.py:{UPDATE_LINE}", "continue", "next", "lr = 0.5"),
    (f"break target_training.py:{UPDATE_LINE}", "continue", "!step"),
)
LAST_WORDS = ("", "next", "continue", "detach")


@pytest.mark.parametrize("python", VERSIONS)
def test_a_client_killed_at_any_point_leaves_the_run_going(
    training: Callable[..., Target], debug: Start, python: str
) -> None:
    """All at the same time: a thread that is held waits 5 s for its debugger to come back."""
    jobs = []
    for number, words in enumerate(POINTS):
        job = training(python)
        session = debug(job)
        for word in words:
            session.ask(word, PROMPT)
        last = LAST_WORDS[number % len(LAST_WORDS)]
        if last:
            session.send(last + "\r")
        session.kill()
        jobs.append(job)
    for job in jobs:
        before = job.report()["steps"]
        wait_until(lambda j=job, b=before: j.report()["steps"] > b + 100, 25, "nothing holds it any more")
        job.expect_unharmed()


@pytest.mark.parametrize("python", VERSIONS)
def test_it_stops_where_an_exception_is_raised(
    probing: Cli, target: StartTarget, debug: Start, tmp_path: Path, python: str
) -> None:
    job = target("raises", tmp_path / "never", python=python)
    probing("-t", job.pid, "inject").expect(0)
    session = debug(job)
    session.ask("catch ValueError", "stops where ValueError is raised")
    session.ask("continue", r"ValueError: odd \d+.*in risky\(\)")
    session.expect(PROMPT)
    session.ask("print detail", r"\{'number': \d*[13579]\}")
    session.ask("catch KeyError", PROMPT)
    session.ask("continue", r"KeyError: \d+.*in risky\(\)")
    session.expect(PROMPT)
    session.ask("catch off", "do not stop")
    session.ask("detach", "goes on")
    job.expect_progress()


@pytest.mark.parametrize("python", VERSIONS)
def test_the_last_unhandled_exception_is_looked_at_afterwards(
    probing: Cli, target: StartTarget, terminal: Callable[..., Terminal], tmp_path: Path, python: str
) -> None:
    job = target("raises", tmp_path / "now", python=python)
    probing("-t", job.pid, "inject").expect(0)
    refused = probing("-t", job.pid, "debug", "--post-mortem", stdin="where\n")
    assert refused.code == 1
    assert "no unhandled exception is kept" in refused.stderr
    probing("-t", job.pid, "config", "probing.python.hooks=exceptions,post_mortem").expect(0)
    hooked = "import threading; hasattr(getattr(threading.excepthook, '__wrapped__', 0), '__wrapped__')"
    wait_until(lambda: probing("-t", job.pid, "eval", hooked).stdout == "True\n", 20, "both hooks are there")
    kept = "import sys; hasattr(sys, 'last_value')"
    (tmp_path / "now").touch()
    wait_until(lambda: probing("-t", job.pid, "eval", kept).stdout == "True\n", 20, "the thread has died")
    session = terminal(PROMPT, "-t", job.pid, "debug", "--post-mortem")
    assert "RuntimeError: worker failed" in session.seen
    session.ask("where", r"worker \(.*deeper \(")
    session.ask("print value", "43")
    session.ask("up", r"in worker\(\)")
    session.ask("print secret", "42")
    session.ask("secret = 1", "can be read, not changed")
    session.ask("continue", "that is over")
    session.ask("detach", "")
    assert session.wait() == 0
    probing("-t", job.pid, "eject").expect(0)
    before = job.report()["loops"]
    wait_until(lambda: job.report()["loops"] > before, 10, "it goes on")


def test_a_second_debugger_is_refused(probing: Cli, training: Callable[..., Target], debug: Start) -> None:
    job = training()
    debug(job)
    answer = probing("-t", job.pid, "debug", stdin="where\n")
    assert answer.code == 1
    assert "another debugger" in answer.stderr


def test_a_thread_is_paused_over_tcp(
    address: str, training: Callable[..., Target], terminal: Callable[..., Terminal]
) -> None:
    job = training()
    session = terminal(PROMPT, "-t", f"{address}/{job.pid}", "debug")
    assert stands_still(job)
    session.ask("print lr", r"0\.001")
    session.ask("detach", "goes on")
    assert session.wait() == 0
    job.expect_progress("steps")


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


@pytest.fixture
def library_calls(probing: Cli, target: StartTarget) -> Callable[..., Target]:
    def start(python: str | None = None) -> Target:
        job = target("library_calls", python=python) if python else target("library_calls")
        probing("-t", job.pid, "inject").expect(0)
        return job

    return start


def line_of(mark: str) -> int:
    lines = (TARGETS / "target_library_calls.py").read_text().splitlines()
    return 1 + next(i for i, line in enumerate(lines) if f"# {mark}" in line)


@pytest.mark.parametrize("python", VERSIONS)
def test_step_and_pause_stay_in_ones_own_code(
    library_calls: Callable[..., Target], debug: Start, python: str
) -> None:
    session = debug(library_calls(python))
    assert "target_library_calls.py" in session.seen  # where it paused
    session.ask(f"tbreak target_library_calls.py:{line_of('the library')}", PROMPT)
    session.ask("continue", "breakpoint")
    session.expect(PROMPT)
    session.ask("step", r"in encode\(\)")  # not in json/__init__.py, but in what json calls
    session.expect(PROMPT)
    session.ask("clear all", PROMPT)
    session.ask("return", r"in (encode|save)\(\)")
    session.expect(PROMPT)
    session.ask("until", r"in (encode|save)\(\)")


def test_full_steps_into_libraries(library_calls: Callable[..., Target], debug: Start) -> None:
    session = debug(library_calls(), "--full")
    session.ask(f"tbreak target_library_calls.py:{line_of('the library')}", PROMPT)
    session.ask("continue", "breakpoint")
    session.expect(PROMPT)
    session.ask("step", r"json/__init__\.py:\d+ in dumps\(\)")
    session.expect(PROMPT)
    session.ask("full off", "your own code only")
    session.expect(PROMPT)
    session.ask("full", "takes on or off; it is off")


def test_words_that_pdb_has(training: Callable[..., Target], debug: Start) -> None:
    session = debug(training())
    session.ask("tbreak half", PROMPT)  # of the other thread: never here
    session.ask(f"tbreak target_training.py:{UPDATE_LINE}", PROMPT)
    session.ask("display model.weight", r"display model\.weight = \d+\.\d+")
    session.expect(PROMPT)
    session.ask("continue", r"breakpoint 2.*display model\.weight = \d+\.\d+")
    session.expect(PROMPT)
    session.ask("args", r"report = <report\.Report")
    session.expect(PROMPT)
    session.ask("ll", rf"def train\(report\):.*{UPDATE_LINE} ->.*report\[\"loss\"\]")
    session.expect(PROMPT)
    session.ask(
        "pp {'weights': list(range(60)), 'name': 'x' * 40}", r"\{'weights': \[0, 1, 2.*\n.*'name': 'x+'\}"
    )
    session.expect(PROMPT)
    session.ask("undisplay", PROMPT)
    session.ask("display", "nothing is displayed")
    session.expect(PROMPT)
    session.send("interact\r")
    session.expect(r">>> ")
    session.ask("for i in range(2):", r"\.\.\. ")
    session.send("    print('round', i, type(model).__name__)\r")
    session.expect(r"\.\.\. ")
    session.send("\r")
    session.expect("round 0 Model\nround 1 Model\n")
    session.expect(r">>> ")
    session.ask("mine = lr + 1", r">>> ")
    session.ask("mine", r"1\.001")
    session.expect(r">>> ")
    session.send("\x04")
    session.expect(PROMPT)
    session.ask("detach", "goes on")
