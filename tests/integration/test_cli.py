"""The command line itself: where a target may stand, what errors look like, help and completion."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable

import harness
import pytest
from harness import Cli, Target, wait_until

StartTarget = Callable[..., Target]

COMMANDS = [
    "inject",
    "eject",
    "run",
    "list",
    "sql",
    "ps",
    "backtrace",
    "why",
    "eval",
    "config",
    "status",
    "doctor",
    "completion",
    "version",
]


@pytest.fixture
def probed(probing: Cli, target: StartTarget) -> Target:
    sleeping = target("sleep")
    probing("-t", sleeping.pid, "inject").expect(0)
    return sleeping


# ── targets ──────────────────────────────────────────────────────────────────────────────────


def test_a_target_may_stand_in_four_places(probing: Cli, probed: Target) -> None:
    for words in (
        ["-t", probed.pid, "status"],
        [probed.pid, "status"],
        ["status", "-t", probed.pid],
        ["status", probed.pid],
    ):
        assert probing(*words, "--json").expect(0).json["pid"] == probed.pid


def test_code_and_settings_may_follow_a_target(probing: Cli, probed: Target) -> None:
    assert probing("eval", probed.pid, "40 + 2").expect(0).stdout == "42\n"
    assert probing("config", probed.pid, "probing.eval.timeout").expect(0).stdout == "10\n"


def test_a_store_is_no_process(probing: Cli) -> None:
    for words in (["-t", "clickhouse://node7/db", "status"], ["clickhouse://node7/db", "status"]):
        answer = probing(*words).expect(2)
        assert "a store is none" in answer.stderr
        assert "hint: " in answer.stderr


def test_a_target_without_a_command_is_wrong_usage(probing: Cli) -> None:
    assert "no command given" in probing(os.getpid()).expect(2).stderr


# ── errors ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("word", "nearest"), [("injct", "inject"), ("stats", "status"), ("backtrac", "backtrace")]
)
def test_an_unknown_command_suggests_the_nearest(probing: Cli, word: str, nearest: str) -> None:
    answer = probing(word).expect(2)
    assert f"did you mean `probing {nearest}`?" in answer.stderr


def test_an_unknown_option_suggests_the_nearest(probing: Cli) -> None:
    assert "did you mean --json?" in probing("list", "--jsn").expect(2).stderr


def test_an_unknown_setting_suggests_the_nearest(probing: Cli, probed: Target) -> None:
    answer = probing(probed.pid, "config", "probing.eval.timeot=3").expect(2)
    assert "did you mean probing.eval.timeout?" in answer.stderr


def test_a_bad_value_says_what_is_expected_and_changes_nothing(probing: Cli, probed: Target) -> None:
    answer = probing(probed.pid, "config", "probing.nested=on", "probing.eval.timeout=soon").expect(2)
    assert "seconds" in answer.stderr
    assert probing(probed.pid, "config", "probing.nested").expect(0).stdout == "false\n"


def test_a_setting_is_changed_at_run_time(probing: Cli, probed: Target) -> None:
    probing(probed.pid, "config", "probing.eval.timeout=300ms").expect(0)
    assert probing(probed.pid, "config", "probing.eval.timeout").expect(0).stdout == "0.3\n"
    assert probing(probed.pid, "eval", "while True: pass").code == 5


def test_a_forgotten_quote_is_explained(probing: Cli, probed: Target) -> None:
    assert "one word too many" in probing("-t", probed.pid, "eval", "1", "+", "1").expect(2).stderr


# ── output ───────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_coloured_in_a_pipe(probing: Cli, probed: Target) -> None:
    for words in (["list"], ["doctor", probed.pid], ["status", probed.pid], ["config"]):
        assert "\x1b" not in probing(*words).expect(0).stdout


def test_list_is_one_line_per_target_even_for_odd_command_lines(probing: Cli) -> None:
    code = "import time\nprint('ready',\n\tflush=True)\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        probing(process.pid, "inject").expect(0)
        lines = [line for line in probing("ls").expect(0).stdout.splitlines() if str(process.pid) in line]
        process.kill()
    assert len(lines) == 1
    assert "time.sleep(60)" in lines[0]


def test_status_tells_about_process_and_probe(probing: Cli, probed: Target) -> None:
    status = probing("status", probed.pid, "--json").expect(0).json
    assert status["command"].endswith("target_sleep.py")
    assert status["probe"]["how"] == "injected"
    text = probing("status", probed.pid).expect(0).stdout
    assert "ago)" in text


# ── run ──────────────────────────────────────────────────────────────────────────────────────


def test_run_is_the_program_itself(probing: Cli) -> None:
    code = "import os, sys; print(os.getpid(), sys.stdin.read()); sys.exit(7)"
    answer = probing("run", "--", sys.executable, "-c", code, stdin="hello")
    assert answer.code == 7
    assert answer.stdout.endswith("hello\n")
    assert answer.stderr == ""


def test_run_probes_the_program_but_not_its_children(probing: Cli) -> None:
    child = "import time; print('ready', flush=True); time.sleep(60)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    command = [str(probing.bin / "probing"), "run", sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=harness.clean_environment()) as process:
        assert process.stdout is not None
        process.stdout.readline()
        wait_until(lambda: harness.probe_socket(process.pid), 30, "the program is probed")
        status = probing("status", process.pid, "--json").expect(0).json
        children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True)
        for pid in map(int, children.stdout.split()):
            assert harness.probe_socket(pid) is None
            os.kill(pid, signal.SIGKILL)
    assert status["probe"]["how"] == "preload"


def test_run_without_such_a_program_is_wrong_usage(probing: Cli) -> None:
    assert "ENOENT" in probing("run", "--", "/no/such/program").expect(2).stderr
    probing("run").expect(2)


# ── help and completion ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(probing: Cli, command: str) -> None:
    for words in ([command, "--help"], [command, "-h"], ["help", command]):
        text = probing(*words).expect(0).stdout
        assert f"Usage: probing {command}" in text
        assert "Example:\n  " in text


def test_help_lists_every_command(probing: Cli) -> None:
    text = probing("--help").expect(0).stdout
    assert probing("help").expect(0).stdout == text
    assert "there is no command" in probing("help", "nosuch").expect(2).stderr
    for command in COMMANDS:
        assert f"\n  {command}" in text
    assert text == probing().expect(0).stdout


def test_version_is_printed_in_every_way(probing: Cli) -> None:
    version = probing("version", "--json").expect(0).json["version"]
    for words in (["version"], ["--version"]):
        assert probing(*words).expect(0).stdout == f"probing {version}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_valid_and_knows_every_command(probing: Cli, shell: str) -> None:
    script = probing("completion", shell).expect(0).stdout
    for command in COMMANDS:
        assert command in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_bash_completes_commands_and_options(probing: Cli, probed: Target) -> None:
    def complete(line: str) -> list[str]:
        words = line.split(" ")
        script = (
            f"export PATH={probing.bin}:$PATH; source <(probing completion bash); "
            f"COMP_WORDS=({' '.join(word or repr(word) for word in words)}); COMP_CWORD={len(words) - 1}; "
            '_probing; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert complete("probing inj") == ["inject"]
    assert "--timeout" in complete("probing -t 1 eval --")
    assert str(probed.pid) in complete("probing -t ")


def test_completion_for_another_shell_is_wrong_usage(probing: Cli) -> None:
    assert "bash, zsh or fish" in probing("completion", "tcsh").expect(2).stderr


def test_an_unknown_option_beside_arguments_is_said(probing: Cli) -> None:
    answer = probing("-t", 1, "debug", "log", "train.py:3", "x", "--seconds", 2)
    assert answer.code == 2
    assert "--seconds" in answer.stderr
    assert "a bug of probing" not in answer.stderr
