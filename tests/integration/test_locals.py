"""Variables from outside are what repr() in the target says, where they are of built-in types."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest

# What is not repr(): long things are cut, and other objects are shown with their attributes.
CUT = {
    "huge": r"<int, 1001 bits>",
    "long_text": r"'x{160}'…",
    "long_bytes": r"b'y{160}'…",
    "text_of_3_mb": r"'ä{160}'…",
    "many": r"\[0, 1, 2, 3, 4, 5, 6, 7, …\]",
    "many_keys": r"\{0: '0', .*, 7: '7', …\}",
    "inner": r"<function (cells\.<locals>\.)?inner>",
    "function": r"<function publish>",
    "built_in": r"<built-in function len>",
    "module": r"<module 'json'>",
    "thing": r"<__main__\.Thing at 0x[0-9a-f]+ name='thing', number=5>",
    "event": r"<threading\.Event at 0x[0-9a-f]+ _cond=<threading\.Condition at 0x[0-9a-f]+>, _flag=False>",
}
WITH_ATTRIBUTES = ("thing", "event")


@pytest.fixture
def standing(target: Callable[..., harness.Target], tmp_path: Path) -> Callable[..., dict[str, Any]]:
    def start(**options: Any) -> dict[str, Any]:
        path = tmp_path / "truth.json"
        target("locals", path, **options)
        return json.loads(path.read_text())

    return start


def test_locals_are_what_repr_says(
    probing: harness.Cli, standing: Callable[..., dict[str, Any]], python: str
) -> None:
    truth = standing(python=python)
    [thread] = probing("bt", "-t", truth["pid"], "--locals", "--json").expect(0).json["threads"]
    seen = {frame["func"].rpartition(".")[2]: frame["locals"] for frame in thread["frames"]}
    for function, variables in truth["frames"].items():
        assert set(seen[function]) == set(variables), function
        for name, text in variables.items():
            if name in WITH_ATTRIBUTES and harness.version_of(python) < (3, 6):  # which have no order
                plain = r"(\w+=[\w']+)[,>]"
                assert set(re.findall(plain, seen[function][name])) == set(re.findall(plain, CUT[name]))
            elif name in CUT:
                assert re.fullmatch(CUT[name], seen[function][name]), (name, seen[function][name])
            else:
                assert seen[function][name] == text, name
    assert seen["<module>"] == {}, "globals are no locals"


def test_locals_as_text_are_below_their_frame(
    probing: harness.Cli, standing: Callable[..., dict[str, Any]]
) -> None:
    pid = standing()["pid"]
    lines = probing("bt", "-t", pid, "--locals").expect(0).stdout.splitlines()
    frame = next(i for i, line in enumerate(lines) if line.startswith("    generator ("))
    assert lines[frame + 1 : frame + 5] == [
        "        Arguments:",
        "            x = 6",
        "        Locals:",
        "            in_generator = 7",
    ]
    assert "        " not in probing("bt", "-t", pid).expect(0).stdout
