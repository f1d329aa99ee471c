"""`probing repl` through a real pseudo-terminal, here and over TCP: Python's prompt inside of a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import ROOT, Cli, Target, wait_until
from terminal import PROMPT, Terminal

StartTarget = Callable[..., Target]
OpenRepl = Callable[..., Terminal]


def test_values_names_and_the_last_value(busy: Target, repl: OpenRepl) -> None:
    session = repl(busy)
    session.ask("1 + 1", r"2\n>>> ")
    session.ask("_ * 21", r"42\n>>> ")
    session.ask("mine = 'a' * 3", PROMPT)
    session.ask("mine", "'aaa'")
    session.ask("MASK == (1 << 64) - 1", "True")  # the job's own
    session.send("\x04")
    assert session.wait() == 0
    busy.expect_progress()


def test_a_block_is_typed_line_by_line(busy: Target, repl: OpenRepl) -> None:
    session = repl(busy)
    session.ask("for i in range(3):", r"\.\.\. ")
    session.send("print('line', i)\r")
    session.expect(r"\.\.\. ")
    session.send("\r")
    session.expect("line 0\nline 1\nline 2\n>>> ")


def test_pasted_lines_are_one_block(busy: Target, repl: OpenRepl) -> None:
    session = repl(busy)
    session.send("\x1b[200~def twice(x):\n\treturn 2 * x\n\nprint(twice(21))\n\x1b[201~\r")
    session.expect(r"\n42\n>>> ")


def test_names_are_completed_in_the_target(busy: Target, repl: OpenRepl) -> None:
    session = repl(busy)
    session.send("MAS\t")
    session.expect("MASK")
    session.send(".bit_l\t")
    session.expect("bit_length")
    session.send("()\r")
    session.expect(r"\n64\n>>> ")
    session.ask("table = {'alpha': 1, 'beta': 2}", PROMPT)
    session.send("table['al\t")
    session.expect(r"table\['alpha'\]")
    session.send("\r")
    session.expect(r"\n1\n>>> ")


def test_control_c_interrupts_the_evaluation_and_not_the_session(
    busy: Target, repl: OpenRepl, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    session = repl(busy)
    session.ask("kept = 7", PROMPT)
    session.send(f"open({str(begun)!r}, 'w').close() or [None for _ in iter(int, 1)]\r")
    wait_until(begun.exists, 20, "it is evaluated")
    session.send("\x03")
    session.expect("KeyboardInterrupt")
    session.expect(PROMPT)
    session.ask("kept", "7")
    busy.expect_progress()


def test_helpers_answer(busy: Target, repl: OpenRepl) -> None:
    session = repl(busy)
    session.ask("%magics", r"%frames.*!sql")
    session.ask("%bt", r"Thread .*train \(.*target_busy\.py")
    session.ask("x = 1", PROMPT)
    session.ask("%who", r"x +int +1")
    session.ask("block?", r"Signature: +block\(seed\)")
    session.ask("block??", r"x = seed")
    session.ask("%time sum(range(10))", r"45\nwall 0\.\d+ s")
    session.ask("!sql SELECT 40 + 2 AS answer", r"answer.*42")
    session.ask("%nonsense", r"there is no %nonsense")


def test_a_frame_is_chosen_and_its_locals_are_read(busy: Target, repl: OpenRepl) -> None:
    session = repl(busy)
    session.ask("%frames", r"train \(.*<module> \(")
    frames = session.seen
    outermost = frames.rindex("<module> (")
    number = int(frames[:outermost].rsplit("\n", 1)[1].strip(" *").split()[0])
    session.ask(f"%frame {number}", r"<module>")
    session.ask("%down", r"train \(")
    session.ask("expected == block(1)", "True")
    session.ask("%locals", r"step = \d+")
    session.ask("%frame off", PROMPT)
    session.ask("expected", r"NameError")


def test_errors_leave_the_session_alive(busy: Target, repl: OpenRepl) -> None:
    session = repl(busy)
    session.ask("1 +", "SyntaxError")
    session.ask("raise SystemExit(3)", "SystemExit: 3")
    session.ask("def deep(): return deep()", r"\.\.\. ")
    session.send("\r")
    session.expect(PROMPT)
    session.ask("deep()", "RecursionError")
    session.ask("class Odd:", r"\.\.\. ")
    session.send("def __repr__(self): raise ValueError('no text')\r")
    session.expect(r"\.\.\. ")
    session.send("\r")
    session.expect(PROMPT)
    session.ask("Odd()", "ValueError: no text")
    session.ask("2 + 2", r"4\n>>> ")
    busy.expect_progress()


def test_sessions_have_names_of_their_own(busy: Target, repl: OpenRepl) -> None:
    sessions = [repl(busy) for _ in range(3)]
    for number, session in enumerate(sessions):
        session.ask(f"mine = {number}", PROMPT)
    for number, session in enumerate(sessions):
        session.ask("mine", rf"{number}\n>>> ")
    sessions[0].ask("%main", "the job's own")
    sessions[0].ask("everybodys = 5", PROMPT)
    sessions[1].ask("everybodys", "5")


def test_a_named_session_can_be_come_back_to(busy: Target, repl: OpenRepl) -> None:
    first = repl(busy, "--session", "mine")
    first.ask("kept = 'still here'", PROMPT)
    first.kill()
    repl(busy, "--session", "mine").ask("kept", "'still here'")


def test_history_is_kept_across_sessions(busy: Target, repl: OpenRepl) -> None:
    first = repl(busy)
    first.ask("11 * 11", "121")
    first.send("\x04")
    first.wait()
    second = repl(busy)
    second.send("\x1b[A\r")
    second.expect(r"11 \* 11\n121")


def test_tensors_are_described_and_those_on_a_device_not_waited_for(
    probing: Cli, target: StartTarget
) -> None:
    python = ROOT / "build/torch-venv/bin/python"
    if not python.exists():
        pytest.skip("needs torch in build/torch-venv (1 GB)")
    # Not a busy one: to import is to give the GIL away thousands of times, and to wait for it again.
    job = target("sleep", python=str(python))
    probing("-t", job.pid, "inject").expect(0)
    lines = (
        "import torch",
        "torch.arange(1000.)",
        "torch.arange(3)",
        "torch.empty(5000, 2, device='meta')",
        "%stats torch.arange(10000000)",
        "%stats 5",
    )
    answer = probing("-t", job.pid, "repl", stdin="\n".join(lines) + "\n")
    assert answer.stdout.splitlines() == [
        "tensor(shape=[1000], dtype=torch.float32, device=cpu, min=0, max=999, mean=499.5)",
        "tensor([0, 1, 2])",
        "tensor(shape=[5000, 2], dtype=torch.float32, device=meta)"
        "  # values stay on the device; %stats waits for them",
        "tensor(shape=[10000000], dtype=torch.int64, device=cpu, min=0, max=1e+07, mean=5e+06)",
    ]
    assert "%stats is for tensors" in answer.stderr


def test_lines_from_a_pipe_need_no_terminal(probing: Cli, busy: Target) -> None:
    answer = probing("-t", busy.pid, "repl", stdin="x = 20\nfor i in range(2):\n  x += 11\n\nx\n")
    assert answer.expect(0).stdout == "42\n"


def test_a_gil_that_does_not_come_is_said_with_its_holder(probing: Cli, target: StartTarget) -> None:
    stuck = target("gil_held")
    wait_until(lambda: stuck.report()["held"], 5, "the GIL is taken")
    probing("-t", stuck.pid, "inject").expect(0)
    answer = probing("-t", stuck.pid, "repl", stdin="1 + 1\n")
    assert answer.code == 5, answer
    assert "holds the GIL" in answer.stderr
    assert "hold" in answer.stderr


def test_long_values_are_shown_in_lines(busy: Target, repl: OpenRepl) -> None:
    session = repl(busy)
    session.ask(
        "{'weights': list(range(60)), 'name': 'x' * 40, 'nested': {'a': 1}}",
        r"\{'weights': \[0, 1, 2[^\n]*,\n(?: {13}\d[^\n]*\n)+ 'name': 'x+',\n 'nested': \{'a': 1\}\}\n>>> ",
    )
    session.ask("[1, 2, 3]", r"\n?\[1, 2, 3\]\n>>> ")


def test_timeit_measures(busy: Target, repl: OpenRepl) -> None:
    session = repl(busy)
    session.ask(
        "%timeit sum(range(100))", r"(ns|µs|ms) per loop \(mean of 5 runs, .* to .*; \d+ loops? each\)"
    )
    session.expect(PROMPT)
    session.ask("%timeit nosuch", "NameError")


def test_control_l_clears_the_screen(busy: Target, repl: OpenRepl) -> None:
    session = repl(busy)
    session.send("1 +\x0c 1\r")
    session.expect(r"\n2\n>>> ")
    assert "\x1b[H\x1b[2J" in session.raw


def test_what_is_typed_has_colours(busy: Target, repl: OpenRepl) -> None:
    session = repl(busy)
    session.ask("len('text') if True else 0", r"4\n>>> ")
    assert "\x1b[32m'text'" in session.raw
    assert "\x1b[35mif" in session.raw


WAITS = """
import time
def train():
    gradient = 21.0
    print("ready", flush=True)
    while True:
        time.sleep(0.1)
train()
"""


def test_a_name_that_is_a_local_variable_is_said_to_be_one(
    probing: Cli, terminal: Callable[..., Terminal]
) -> None:
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE) as job:
        assert job.stdout is not None
        job.stdout.readline()
        probing("-t", job.pid, "inject").expect(0)
        answer = probing("-t", job.pid, "eval", "gradient * 2")
        said = answer.stderr
        assert answer.code == 1
        assert "gradient is a local variable of train() (<string>:" in said
        assert said.endswith("frame 0: use --frame 0\n")
        assert probing("-t", job.pid, "eval", "--frame", 0, "gradient * 2").expect(0).stdout == "42.0\n"
        session = terminal(PROMPT, "-t", job.pid, "repl")
        session.ask("gradient", r"gradient is a local variable of train\(\).*use %frame 0")
        assert "local variable" not in probing("-t", job.pid, "eval", "nosuch").stderr
        job.kill()
