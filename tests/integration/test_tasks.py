"""The tasks of asyncio, from outside, are what Python says they are."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest

SINCE_3_12 = [version for version in harness.python_ids() if harness.version_of(version)[1] >= 12]


@pytest.fixture(params=SINCE_3_12)
def standing(
    target: Callable[..., harness.Target], tmp_path: Path, request: pytest.FixtureRequest
) -> dict[str, Any]:
    path = tmp_path / "truth.json"
    target("tasks", path, python=request.param)
    return json.loads(path.read_text())


def tasks_of(thread: dict[str, Any]) -> list[dict[str, Any]]:
    def frames(task: dict[str, Any]) -> list[list[Any]]:
        return [[frame["func"], frame["file"], frame["lineno"]] for frame in task["frames"]]

    return [{"name": t["name"], "state": t["state"], "frames": frames(t)} for t in thread["tasks"]]


def by_name(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(tasks, key=lambda task: task["name"])


def test_tasks_are_what_python_says(probing: harness.Cli, standing: dict[str, Any]) -> None:
    seen = probing("bt", "-t", standing["pid"], "--json").expect(0).json
    main, beside = seen["threads"]
    assert by_name(tasks_of(main)) == by_name(standing["main"])
    assert by_name(tasks_of(beside)) == by_name(standing["beside"])
    assert len(standing["main"]) > 10
    assert seen["tasks"] == []
    assert seen["task_count"] == len(standing["main"]) + len(standing["beside"])


def test_tasks_are_below_the_frames_of_their_thread(probing: harness.Cli, standing: dict[str, Any]) -> None:
    text = probing("bt", "-t", standing["pid"]).expect(0).stdout
    assert all(len(line) <= 80 for line in text.splitlines())
    main, beside = text.split("\n\n")
    assert re.search(
        r'^    Task "main größe 📦" \(waiting\)\n        leaf \(.*target_tasks\.py:\d+\)$', main, re.M
    )
    assert '    Task "main never started" (ready)\n        never_started (' in main
    assert '    Task "beside größe 📦" (waiting)\n' in beside


def test_a_python_without_asyncio_has_no_tasks(
    probing: harness.Cli, target: Callable[..., harness.Target]
) -> None:
    seen = probing("bt", "-t", target("busy").pid, "--json").expect(0).json
    assert seen["task_count"] == 0
    assert [thread["tasks"] for thread in seen["threads"]] == [[]]
