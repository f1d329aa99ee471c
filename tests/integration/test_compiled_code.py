"""Native frames of code that numba and Cython made have names, and Cython's the lines of the .pyx file."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli

StartTarget = Callable[..., harness.Target]
CLIENTS = harness.ROOT / "build/clients-venv/bin/python"


def needs(package: str) -> None:
    if subprocess.run([CLIENTS, "-c", f"import {package}"], capture_output=True).returncode:
        pytest.skip(f"needs {package} in build/clients-venv (tools/install_deps.sh clients)")


def frames_of(probing: Cli, pid: int, *options: str) -> list[dict[str, Any]]:
    def look() -> list[dict[str, Any]] | None:
        answer = probing("bt", "-t", pid, "--tid", pid, "--json", *options).expect(0).json
        [thread] = answer["threads"]
        is_inside = thread["merged"] and any("innermost" in str(frame["func"]) for frame in thread["frames"])
        return thread["frames"] if is_inside else None

    return harness.wait_until(look)


@pytest.mark.slow(120)
def test_functions_of_numba_are_named_and_stand_where_they_are_called(
    probing: Cli, target: StartTarget
) -> None:
    needs("numba")
    started = target("compiled", "numba", python=str(CLIENTS))
    frames = frames_of(probing, started.pid, "--native")
    names = [f"{frame['frame_type']}:{frame['func']}" for frame in frames]
    left = iter(names)
    for pattern in ("Native:.*::innermost.*", "Native:.*::outer.*", "Python:work", "Python:<module>"):
        assert any(re.match(pattern, name) for name in left), (pattern, names)
    recorded = probing(
        *("-t", started.pid, "record", "--native", "-d", 1, "-r", 100, "-f", "collapsed", "-o", "-")
    ).expect(0)
    inside = sum(
        int(line.rsplit(" ", 1)[1]) for line in recorded.stdout.splitlines() if "::innermost" in line
    )
    assert inside >= 30, recorded.stdout
    started.expect_unharmed()


@pytest.mark.slow(120)
@pytest.mark.parametrize("directives", [["--line-directives"], []], ids=["directives", "comments"])
def test_lines_of_cython_are_those_of_the_pyx_file(
    probing: Cli, target: StartTarget, tmp_path: Path, directives: list[str]
) -> None:
    needs("Cython")
    source = tmp_path / "tillwork.pyx"
    shutil.copy(harness.TARGETS / "tillwork.pyx", source)
    run = [str(CLIENTS), "-m", "cython", "-3", *directives, "tillwork.pyx"]
    subprocess.run(run, cwd=tmp_path, check=True, capture_output=True)
    where = "import sysconfig; print(sysconfig.get_path('include'))"
    include = subprocess.run(
        [CLIENTS, "-c", where], check=True, capture_output=True, text=True
    ).stdout.strip()
    subprocess.run(
        ["gcc", "-g", "-O1", "-shared", "-fPIC", f"-I{include}", "-o", "tillwork.so", "tillwork.c"],
        cwd=tmp_path,
        check=True,
    )
    started = target("compiled", "cython", python=str(CLIENTS), PYTHONPATH=str(tmp_path))
    frames = frames_of(probing, started.pid, "--lines")
    lines = source.read_text().splitlines()
    seen = {
        lines[frame["lineno"] - 1].strip()
        for frame in frames
        if frame["frame_type"] == "Native" and str(frame["file"]).endswith("tillwork.pyx")
    }
    assert {"self.total += innermost(x, n)", "return till.ring(3.0, n)"} <= seen
    assert seen & {"s += x * i % 7.0", "for i in range(n):"}
    names = {frame["func"] for frame in frames if frame["frame_type"] == "Native"}
    assert {"tillwork.innermost", "tillwork.Till.ring", "tillwork.sell"} <= names
    started.expect_unharmed()
