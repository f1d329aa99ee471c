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
from harness import Cli, Target, wait_until

StartTarget = Callable[..., Target]
PAGES = ["README.md", "README.cn.md"]
BLOCK_LINE = re.compile(r"^    (?:\$ )?(\S.*?)(?:\s{2,}#.*)?$", re.MULTILINE)
# What other tests run, and which: pip in fresh environments, and all of this.
ELSEWHERE = {"pip install dist/probing-*.whl": "test_wheel.py", "make test": "test_readme.py"}


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
        elif command == "make demo":
            done = run("make -n demo && tools/demo.sh < /dev/null", PYTHON=sys.executable)
            assert done.returncode == 0 and "the job runs on" in done.stdout, done
        else:
            assert command.startswith("probing "), f"who runs {command!r}?"
            done = run(command.replace("4711", str(job.pid)))
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    job.expect_progress()


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


def test_the_quick_start_works_line_by_line() -> None:
    page = (harness.ROOT / "docs/quick_start.md").read_text()
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


def test_the_recording_is_made_from_what_commands_print(probing: Cli, tmp_path: Path) -> None:
    tool = [sys.executable, str(harness.ROOT / "tools/record_terminal.py"), str(tmp_path / "t.svg")]
    done = subprocess.run(
        tool, env=harness.clean_environment(PROBING_BIN=str(harness.BIN)), capture_output=True
    )
    assert done.returncode == 0, done
    texts = [
        "".join(node.itertext())
        for node in ElementTree.parse(tmp_path / "t.svg").iter()
        if "text" in node.tag
    ]
    assert sum(text.startswith("$ probing") for text in texts) == 5
    assert any("PlainNetwork" in text or "TorchNetwork" in text for text in texts)
    committed = (harness.ROOT / "docs/images/terminal.svg").read_text()
    assert committed.count("$ probing") == 5, "`tools/record_terminal.py` draws it anew"
