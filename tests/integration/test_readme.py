"""Every command of the READMEs and of the quick start is run, against a real target."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import harness
import pytest
from harness import Target, wait_until

StartTarget = Callable[..., Target]
PAGES = ["README.md", "README.cn.md"]
BLOCK_LINE = re.compile(r"^    (?:\$ )?(\S.*?)(?:\s{2,}#.*)?$", re.MULTILINE)
# What other tests run, and which: pip in fresh environments, and all of this.
ELSEWHERE = {
    "pip install dist/probing-*.whl": "test_wheel.py",
    "make test": "test_readme.py",
    "make demo": "test_readme.py",
}
TORCH = harness.ROOT / "build/torch-venv/bin/python"
needs_torch = pytest.mark.skipif(
    not TORCH.exists(), reason="needs torch in build/torch-venv (tools/install_deps.sh torch)"
)
DEMO = ["make demo", "build/torch-venv/bin/python examples/hang.py &", "build/release/bin/probing diagnose"]


def commands_of(page: str) -> list[str]:
    return BLOCK_LINE.findall((harness.ROOT / page).read_text())


def ways_in(page: str) -> list[str]:
    """The first column of the table of ways in: what is in backticks there."""
    rows = re.findall(r"^\| (`.*?`) \|", (harness.ROOT / page).read_text(), re.MULTILINE)
    return [command for row in rows for command in re.findall(r"`([^`]+)`", row)]


def run(command: str, timeout: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
    """As a shell does, with our programs in front of the PATH."""
    path = f"{harness.BIN}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", command],
        env=harness.clean_environment(PATH=path, **environment),
        cwd=harness.ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.mark.slow(180)
@pytest.mark.parametrize("page", PAGES)
def test_commands_of_the_readme_work_in_their_order(page: str, target: StartTarget) -> None:
    job = target("model")
    commands = commands_of(page)
    assert len(commands) >= 10
    for command in commands:
        if command in ELSEWHERE:
            assert (Path(__file__).parent / ELSEWHERE[command]).exists()
        elif command not in DEMO:
            assert command.startswith("probing "), f"who runs {command!r}?"
            done = run(command.replace("4711", str(job.pid)))
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    job.expect_progress()


@needs_torch
@pytest.mark.slow(240)
@pytest.mark.parametrize("page", PAGES)
def test_three_commands_of_the_readme_name_the_cause_of_the_hang(page: str) -> None:
    commands = commands_of(page)
    first = commands.index(DEMO[1])
    assert commands[first - 1 : first + 2] == DEMO
    demo = run("make -n demo && tools/demo.sh < /dev/null", timeout=200)
    assert demo.returncode == 0, demo
    for what in ("collective_hang rank 1", "look_at_bad_batch (hang.py:27)", "(20, Linear(", "blocks.3"):
        assert what in demo.stdout, (what, demo.stdout)
    assert re.search(r"Tensor \[\] float32: .*\n  held by .*history", demo.stdout), demo.stdout

    # Asked too early, it says so with an exit code, and is asked again, as a person would.
    asked = f"{DEMO[2]} | tee /dev/stderr | grep -q 'collective_hang rank 1'"
    done = run(f"{DEMO[1]} trap 'kill $!' EXIT; until {asked}; do sleep 1; done", timeout=120)
    assert done.returncode == 0 and "look_at_bad_batch (hang.py:27)" in done.stderr, done
    shown = re.search(r"```text\n(collective_hang .*?)```", (harness.ROOT / page).read_text(), re.DOTALL)
    assert shown, "what is printed stands in the README"
    words = [word for word in shown[1].split() if not re.fullmatch(r"[\d.]+|for|\(.*", word)]
    missing = [word for word in words if word not in done.stderr]
    assert not missing, (missing, done.stderr)


@pytest.mark.parametrize("page", PAGES)
def test_ways_in_of_the_readme_lead_in(page: str, target: StartTarget, tmp_path: Path) -> None:
    script = tmp_path / "a.py"
    script.write_text("print('libprobing' in open('/proc/self/maps').read())\n")
    commands = ways_in(page)
    assert len(commands) >= 6
    seen = 0
    for command in commands:
        if "PID" in command:
            job = target("model")
            done = run(command.replace("PID", str(job.pid)))
            assert done.returncode == 0, done
            wait_until(lambda pid=job.pid: harness.is_probed(pid), 10, command)
        elif command.endswith("a.py"):
            filled = command.replace("…", str(harness.BIN)).replace(
                "python a.py", f"{sys.executable} {script}"
            )
            if command.startswith(
                "PROBING="
            ):  # as if the start hook were there: test_start_hook.py installs it
                start = f"import _probing_start as s, runpy; s.start(); runpy.run_path({str(script)!r})"
                filled = f"PROBING=1 {sys.executable} -c {shlex.quote(start)}"
            done = run(filled, PYTHONPATH=str(harness.ROOT / "python"))
            assert (done.returncode, done.stdout) == (0, "True\n"), (command, done)
        elif command == "import probing":
            code = "import probing; print(probing.is_active())"
            done = run(f'{sys.executable} -c "{code}"', PYTHONPATH=str(harness.ROOT / "python"))
            assert done.stdout == "True\n", done
        else:
            continue
        seen += 1
    assert seen >= 6


@pytest.mark.parametrize("name", ["quick_start.md", "quick_start.cn.md"])
def test_the_quick_start_works_line_by_line(name: str) -> None:
    page = (harness.ROOT / "docs" / name).read_text()
    lines = [line for line in BLOCK_LINE.findall(page) if line not in ELSEWHERE]
    assert lines[0] == "python3 examples/demo_train.py &"
    script = [
        f"{lines[0].removesuffix(' &')} > /dev/null &",
        "job=$!",
        "trap 'kill $job' EXIT",
        "sleep 1",
        "set -e",
    ]
    script += [line.replace("$!", "$job") for line in lines[1:]]
    done = run("\n".join(script))
    assert done.returncode == 0, done
    assert ("train" in done.stdout and "│" in done.stdout) or "func" in done.stdout


@needs_torch
@pytest.mark.slow(180)
def test_the_recording_is_made_from_what_commands_print(tmp_path: Path) -> None:
    tool = [sys.executable, str(harness.ROOT / "tools/record_terminal.py"), str(tmp_path / "t.svg")]
    done = subprocess.run(
        tool, env=harness.clean_environment(PROBING_BIN=str(harness.BIN)), capture_output=True
    )
    assert done.returncode == 0, done

    def lines(path: Path) -> list[str]:
        return ["".join(node.itertext()) for node in ElementTree.parse(path).iter() if "text" in node.tag]

    def commands(path: Path) -> list[str]:
        return [re.sub(r"\d+", "N", line) for line in lines(path) if line.startswith("$ ")]

    recorded = tmp_path / "t.svg"
    text = "\n".join(lines(recorded))
    assert "collective_hang rank 1" in text and "Linear(in_features" in text and "held by" in text, text
    committed = harness.ROOT / "docs/images/terminal.svg"
    assert commands(committed) == commands(recorded), "`tools/record_terminal.py` draws it anew"
    assert len(commands(committed)) == 7
