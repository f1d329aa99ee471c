"""Values of `backtrace --locals` are what repr() in the target says, also of collections and classes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest

ADDRESS = r"0x[0-9a-f]+"
# What is not repr(): long things are cut, a __repr__ in Python cannot be called, objects show attributes.
OTHERWISE = {
    "long_queue": r"deque\(\[70, 71, 72, 73, 74, 75, 76, 77, …\]\)",
    "marked": r"Marked\('text'\)",
    "both": r"<Right(\.READ\|WRITE)?: 3>",  # up to 3.10 the name of a combination is made by repr()
    "inner": r"<function (of_classes\.<locals>\.)?inner>",
    "method": r"<bound method (Outer\.Inner\.)?method>",
    "slots": rf"<__main__\.Slots at {ADDRESS} first=1, second=\[2\]>",
    "more_slots": rf"<__main__\.MoreSlots at {ADDRESS} third='three', first=1, second=\[2\]>",
    "thing": rf"<__main__\.Outer\.Inner at {ADDRESS} value=1.5, child=<__main__\.Slots at {ADDRESS}>, "
    r"nothing=None, _flag=False>",
    "eight": r"\[1, \[2, \[3, \[4, \[5, \[6, \[…\]\]\]\]\]\]\]",
    "with_list": r"\(\[\(\.\.\.\)\],\)",
}
# Too long for any answer: how long it is at most.
LONG = {"long_texts": 2_500, "wide": 3_000}


@pytest.fixture
def standing(target: Callable[..., harness.Target], tmp_path: Path) -> Callable[..., dict[str, Any]]:
    def start(**options: Any) -> dict[str, Any]:
        path = tmp_path / "truth.json"
        target("local_values", path, **options)
        return json.loads(path.read_text())

    return start


def frames_of(probing: harness.Cli, pid: int, *options: str) -> dict[str, Any]:
    [thread] = probing("bt", "-t", pid, "--locals", *options, "--json").expect(0).json["threads"]
    return {frame["func"].rpartition(".")[2]: frame for frame in thread["frames"]}


def test_values_are_what_repr_says(
    probing: harness.Cli, standing: Callable[..., dict[str, Any]], python: str
) -> None:
    truth = standing(python=python)
    seen = frames_of(probing, truth["pid"])
    wrong = {}
    for function, variables in truth["frames"].items():
        assert set(seen[function]["locals"]) == set(variables), function
        for name, text in variables.items():
            found = seen[function]["locals"][name]
            if name in LONG:
                right = "…" in found and len(found) < LONG[name]
            elif name in OTHERWISE:
                right = re.fullmatch(OTHERWISE[name], found) is not None
            else:
                right = found == text
            if not right:
                wrong[name] = (found, text)
    assert wrong == {}


def test_arguments_are_told_from_locals(
    probing: harness.Cli, standing: Callable[..., dict[str, Any]], python: str
) -> None:
    truth = standing(python=python)
    seen = frames_of(probing, truth["pid"])
    for function, arguments in truth["arguments"].items():
        assert seen[function]["arguments"] == arguments, function
        assert list(seen[function]["locals"])[: len(arguments)] == arguments, "they come first"
    assert truth["arguments"]["of_collections"] == ["first", "second", "only", "rest", "named"]


def test_depth_is_an_option(probing: harness.Cli, standing: Callable[..., dict[str, Any]]) -> None:
    truth = standing()
    pid = truth["pid"]
    assert (
        frames_of(probing, pid, "--depth", "8")["deep"]["locals"]["eight"] == truth["frames"]["deep"]["eight"]
    )
    assert frames_of(probing, pid, "--depth", "1")["deep"]["locals"]["eight"] == "[1, […]]"
    shallow = frames_of(probing, pid, "--depth", "0")
    assert shallow["deep"]["locals"]["keys"] == "{…}"
    assert shallow["of_dataclasses"]["locals"]["config"] == "Config(…)"
    refused = probing("bt", "-t", pid, "--locals", "--depth", "33")
    assert refused.code == 2
    assert "0 to 32" in refused.stderr
    assert probing("bt", "-t", pid, "--depth", "3").code == 2


def test_sql_shows_the_same_values(probing: harness.Cli, standing: Callable[..., dict[str, Any]]) -> None:
    truth = standing()
    sql = "SELECT locals FROM python.stacks WHERE func = 'of_dataclasses'"
    [row] = harness.rows(probing, sql, truth["pid"])
    assert json.loads(row["locals"])["nested"] == truth["frames"]["of_dataclasses"]["nested"]
    sql = "SELECT locals FROM python.backtrace WHERE func = 'of_collections'"
    [row] = harness.rows(probing, sql, truth["pid"])
    assert list(json.loads(row["locals"]))[:5] == truth["arguments"]["of_collections"], "arguments come first"
