"""Sessions of `probing repl`: many at once, lost and come back to, and what must not end the job."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from harness import BIN, Cli, Target, daemons, has_ended, wait_until
from terminal import PROMPT, Terminal
from users import free_port

StartTarget = Callable[..., Target]
OpenRepl = Callable[..., Terminal]


def kill_daemon() -> None:
    for pid in daemons([BIN]):
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: has_ended(pid), 10, "it is gone, and its sockets")


def test_ten_sessions_at_once(busy: Target, repl: OpenRepl) -> None:
    sessions = [repl(busy) for _ in range(10)]
    for number, session in enumerate(sessions):
        session.send(f"mine = sum({number} for _ in range(1000)); print('done', mine)\r")
    for number, session in enumerate(sessions):
        session.expect(rf"\ndone {1000 * number}\n>>> ")
    for number, session in enumerate(sessions):
        session.ask("mine", rf"{1000 * number}\n>>> ")
    busy.expect_progress()


def test_a_lost_connection_is_said_and_resumed_with_its_variables(
    busy: Target, terminal: Callable[..., Terminal]
) -> None:
    session = terminal(PROMPT, "-t", busy.pid, "repl")
    session.ask("kept = 7", PROMPT)
    kill_daemon()
    session.expect("connection was lost")
    session.ask("kept", r"7\n>>> ")


def test_a_connection_lost_over_tcp_is_resumed_when_the_server_is_back(
    probing: Cli, busy: Target, terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    address = f"127.0.0.1:{free_port()}"
    begun = tmp_path / "begun"
    probing("serve", "--listen", address, "--background").expect(0)
    session = terminal(PROMPT, "-t", f"{address}/{busy.pid}", "repl")
    session.ask("kept = 7", PROMPT)
    session.send(f"open({str(begun)!r}, 'w').close() or [None for _ in iter(int, 1)]\r")
    wait_until(begun.exists, 20, "it is evaluated")
    kill_daemon()
    session.expect("connection was lost")
    session.expect("variables are still in the target")
    session.ask("kept", "connect to " + address)  # nobody is there
    probing("serve", "--listen", address, "--background").expect(0)
    session.ask("kept", r"7\n>>> ")
    busy.expect_progress()


def test_what_would_end_the_job_is_asked_about_first(busy: Target, repl: OpenRepl) -> None:
    session = repl(busy)
    for line in ("import os; os._exit(1)", "from os import _exit as leave", "os.kill(os.getpid(), 9)"):
        session.ask(line, r"may end the job; run it\? \[y/N\] ")
        session.send("n\r")
        session.expect("not run")
        session.expect(PROMPT)
    session.ask("import os", PROMPT)
    session.ask("getattr(os, '_ex' + 'it')(1)", r"os\._exit\(\) would end the job, and was not done")
    session.ask("os.kill(os.getpid(), 0)", r"\[y/N\] ")  # harmless, and asked about all the same
    session.send("y\r")
    session.expect(PROMPT)
    session.ask("'alive'", "'alive'")
    busy.expect_progress()


def test_eval_ends_the_job_only_when_told_so(probing: Cli, target: StartTarget) -> None:
    job = target("busy")
    probing("-t", job.pid, "inject").expect(0)
    answer = probing("-t", job.pid, "eval", "import os; os._exit(0)")
    assert answer.code == 1
    assert "eval --yes" in answer.stderr
    job.expect_progress()
    assert probing("-t", job.pid, "eval", "--yes", "import os; os._exit(0)").code != 0
    assert job.process.wait(10) == 0


def test_an_evaluation_that_waits_for_another_can_be_given_up(
    busy: Target, repl: OpenRepl, tmp_path: Path
) -> None:
    begun, surprise = tmp_path / "begun", tmp_path / "surprise"
    first, second = repl(busy), repl(busy)
    first.send(f"open({str(begun)!r}, 'w').close() or [None for _ in iter(int, 1)]\r")
    wait_until(begun.exists, 20, "it is evaluated")
    second.send(f"open({str(surprise)!r}, 'w').close()\r")
    second.expect(r"surprise.*\n")
    second.send("\x03")
    second.expect("nothing was evaluated")
    second.expect(PROMPT)
    first.send("\x03")
    first.expect("KeyboardInterrupt")
    first.expect(PROMPT)
    first.ask("'next'", "'next'")
    assert not surprise.exists()


def test_every_command_says_that_the_gil_does_not_come(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    """The later ones, too, though the thread of the first still waits."""
    stuck = target("gil_held")
    wait_until(lambda: stuck.report()["held"], 30, "the GIL is taken")
    probing("-t", stuck.pid, "inject").expect(0)
    (tmp_path / "check.py").write_text("print(1)")
    commands = [
        ("eval", "--timeout", 1, "1 + 1"),
        ("script", tmp_path / "check.py", "--timeout", 1),
        ("debug", "points"),
        ("debug",),
    ]
    for command in commands:
        answer = probing("-t", stuck.pid, *command, stdin="")
        assert answer.code == 5, answer
        assert "holds the GIL" in answer.stderr
        assert "nothing was evaluated" in answer.stderr


def test_a_frame_whose_call_has_ended_is_said(busy: Target, repl: OpenRepl) -> None:
    session = repl(busy)
    session.ask("import threading; release = threading.Event()", PROMPT)
    session.ask("def waits(): marker = 7; release.wait()", r"\.\.\. ")
    session.send("\r")
    session.expect(PROMPT)
    session.ask("waiting = threading.Thread(target=waits); waiting.start()", PROMPT)
    tid = session.ask("'tid', waiting.native_id", r"'tid', (\d+)\)").group(1)
    session.expect(PROMPT)
    session.ask(f"%thread {tid}", r"waits \(<probing>")
    number = session.seen[: session.seen.rindex("waits (<probing>")].rsplit("\n", 1)[1].strip(" *")
    session.ask(f"%frame {number}", r"waits \(")
    session.ask("marker", r"7\n>>> ")
    session.ask("%frame off", PROMPT)
    session.ask(f"%frame {number}", r"waits \(")
    session.ask("release.set(); waiting.join()", PROMPT)
    session.ask("marker", r"waits\(\) that was chosen has ended")
    session.ask("'alive'", "'alive'")
