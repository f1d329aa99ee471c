"""Interpreters that hide what they are: stripped, without exported symbols, of a version nobody knows."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest

StartTarget = Callable[..., harness.Target]

SOURCE = (harness.TARGETS / "target_plain.py").read_text().splitlines()
EXPECTED = [
    [function, 1 + next(i for i, line in enumerate(SOURCE) if line.endswith(f"# {function} is here"))]
    for function in ("inner", "outer", "<module>")
]


def configuration(python: str) -> dict[str, Any]:
    code = "import json, sys, sysconfig; print(json.dumps([sys.base_prefix, sysconfig.get_config_vars()]))"
    output = subprocess.run([harness.pythons()[python], "-c", code], check=True, capture_output=True).stdout
    prefix, variables = json.loads(output)
    return variables | {"prefix": prefix}


def link_statically(python: str, output: Path) -> dict[str, str]:
    """A stripped program with Python in it that exports nothing. Returns the environment it needs."""
    variables = configuration(python)
    library = Path(variables["LIBPL"]) / variables["LIBRARY"]
    if not library.exists():
        pytest.skip(f"this Python has no {library.name}")
    source = harness.TARGETS / "target_static.c"
    command = ["gcc", f"-I{variables['INCLUDEPY']}", source, library, "-o", output, "-s"]
    subprocess.run([*command, "-lpthread", "-ldl", "-lutil", "-lm"], check=True, capture_output=True)
    return {"PYTHONHOME": variables["prefix"]}


def backtrace(probing: harness.Cli, pid: int) -> dict[str, Any]:
    return probing("bt", "-t", pid, "--locals", "--json").expect(0).json


def frames(answer: dict[str, Any]) -> list[list[Any]]:
    [thread] = answer["threads"]
    return [[frame["func"], frame["lineno"]] for frame in thread["frames"]]


def test_a_stripped_interpreter_is_read(
    probing: harness.Cli, target: StartTarget, python: str, tmp_path: Path
) -> None:
    variables = configuration(python)
    library = Path(variables["LIBDIR"]) / variables["INSTSONAME"]
    if not library.name.endswith((".so", ".so.1.0")) or not library.exists():
        pytest.skip("this Python is no library")
    loads_it = f"raise SystemExit({library.name!r} not in open('/proc/self/maps').read())"
    if subprocess.run([harness.pythons()[python], "-c", loads_it], check=False).returncode != 0:
        pytest.skip("this Python has a library, and does not use it")
    stripped = tmp_path / library.name
    subprocess.run(["strip", "--strip-all", library, "-o", stripped], check=True)
    started = target("plain", python=python, LD_LIBRARY_PATH=str(tmp_path))
    assert str(stripped) in Path(f"/proc/{started.pid}/maps").read_text()
    assert frames(backtrace(probing, started.pid)) == EXPECTED


def test_an_interpreter_that_exports_nothing_is_read(
    probing: harness.Cli, target: StartTarget, python: str, tmp_path: Path
) -> None:
    program = tmp_path / "trainer"
    environment = link_statically(python, program)
    symbols = subprocess.run(["nm", "-D", "--defined-only", program], check=True, capture_output=True)
    assert b"Py" not in symbols.stdout
    started = target("plain", python=str(program), **environment)
    answer = backtrace(probing, started.pid)
    version = harness.version_of(python)
    assert harness.version_of(answer["python"])[: len(version)] == version
    assert frames(answer) == EXPECTED
    assert answer["threads"][0]["frames"][1]["locals"] == {"local": "[1, 'two']"}
    # Code cannot be run in it, which is said by name.
    probing("-t", started.pid, "inject").expect(0)
    refused = probing("-t", started.pid, "eval", "1 + 1").expect(1)
    assert "no Python in this process exports its functions" in refused.stderr
    assert "backtrace" in refused.stderr
    probing("-t", started.pid, "eject").expect(0)


def test_a_version_that_nobody_knows_is_named_and_has_native_frames(
    probing: harness.Cli, target: StartTarget, tmp_path: Path
) -> None:
    python = [version for version in harness.python_ids() if version.count(".") == 2][-1]
    major, minor, micro = map(int, python.split("."))
    if minor < 13:
        pytest.skip("no Python here describes itself")
    program = tmp_path / "trainer"
    environment = link_statically(python, program)
    head = b"xdebugpy" + struct.pack("<Q", major << 24 | minor << 16 | micro << 8 | 0xF0)
    changed = b"xdebugpy" + struct.pack("<Q", 3 << 24 | 63 << 16 | 0xF0)
    assert head in program.read_bytes()
    program.write_bytes(program.read_bytes().replace(head, changed))

    started = target("plain", python=str(program), **environment)
    refused = probing("bt", "-t", started.pid).expect(1)
    assert refused.stdout == ""
    assert "cannot read the stacks of Python 3.63.0" in refused.stderr
    assert "--native" in refused.stderr
    native = probing("bt", "-t", started.pid, "--native", "--json").expect(0)
    assert "3.63.0" in native.stderr and "native frames only" in native.stderr
    [thread] = native.json["threads"]
    assert any("read" in frame["func"] for frame in thread["frames"]), thread["frames"]
