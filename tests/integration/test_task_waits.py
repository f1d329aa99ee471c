"""Which task waits for which, from outside, is what the program made."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest


@pytest.fixture
def standing(target: Callable[..., harness.Target], tmp_path: Path, python: str) -> dict[str, Any]:
    path = tmp_path / "truth.json"
    target("waits", path, python=python)
    return json.loads(path.read_text())


def test_awaited_by_is_what_the_program_made(probing: harness.Cli, standing: dict[str, Any]) -> None:
    [thread] = probing("bt", "-t", standing["pid"], "--json").expect(0).json["threads"]
    names = standing["tasks"]
    seen = {
        names[task["id"]]: sorted(names[one] for one in task["awaited_by"])
        for task in thread["tasks"]
        if task["id"] in names
    }
    assert seen == standing["awaited_by"]


def test_the_tree_has_tasks_below_those_that_wait(probing: harness.Cli, standing: dict[str, Any]) -> None:
    text = probing("bt", "-t", standing["pid"], "--task-tree").expect(0).stdout
    [thread] = probing("bt", "-t", standing["pid"], "--json").expect(0).json["threads"]
    shown = {standing["tasks"].get(task["id"]): task["name"] or task["id"] for task in thread["tasks"]}
    lines = text.splitlines()

    def place(name: str, end: str = "") -> tuple[int, int]:
        at = next(i for i, line in enumerate(lines) if line.endswith(f"── (T) {shown[name]}{end}"))
        return at, lines[at].index("(T)")

    parent, parent_column = place("gather")
    assert lines[parent + 1].lstrip(" │").startswith("└── gathers (")
    for name in ("g1", "g2"):
        at, column = place(name)
        assert at > parent and column > parent_column, text
    assert text.count(f"(T) {shown['shared']}\n") == 1
    assert text.count(f"(T) {shown['shared']} (see above)\n") == 1
    assert "(waits for itself: a circle)" in text
