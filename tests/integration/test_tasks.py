"""The tasks of asyncio, from outside, are what Python says they are."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest
from test_core_files import make_core


@pytest.fixture
def standing(target: Callable[..., harness.Target], tmp_path: Path, python: str) -> dict[str, Any]:
    path = tmp_path / "truth.json"
    target("tasks", path, python=python)
    return {**json.loads(path.read_text()), "has_names": harness.version_of(python)[1] >= 8}


def tasks_of(thread: dict[str, Any]) -> list[dict[str, Any]]:
    def frames(task: dict[str, Any]) -> list[list[Any]]:
        return [[frame["func"], frame["file"], frame["lineno"]] for frame in task["frames"]]

    return [
        {"id": t["id"], "name": t["name"], "state": t["state"], "frames": frames(t)} for t in thread["tasks"]
    ]


def by_id(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(tasks, key=lambda task: task["id"])


def test_tasks_are_what_python_says(probing: harness.Cli, standing: dict[str, Any]) -> None:
    seen = probing("bt", "-t", standing["pid"], "--json").expect(0).json
    main, beside = seen["threads"]
    assert by_id(tasks_of(main)) == by_id(standing["main"])
    assert by_id(tasks_of(beside)) == by_id(standing["beside"])
    assert len(standing["main"]) > 15
    assert seen["tasks"] == []
    assert seen["task_count"] == len(standing["main"]) + len(standing["beside"])


def test_a_core_file_has_tasks(probing: harness.Cli, standing: dict[str, Any], tmp_path: Path) -> None:
    core = make_core(standing["pid"], tmp_path)
    seen = probing("bt", "--core", core, "--json").expect(0).json
    main, beside = seen["threads"]
    assert by_id(tasks_of(main)) == by_id(standing["main"])
    assert by_id(tasks_of(beside)) == by_id(standing["beside"])
    assert seen["task_count"] == len(standing["main"]) + len(standing["beside"])


def test_tasks_are_below_the_frames_of_their_thread(probing: harness.Cli, standing: dict[str, Any]) -> None:
    text = probing("bt", "-t", standing["pid"]).expect(0).stdout
    assert all(len(line) <= 80 for line in text.splitlines() if "long long" not in line)
    main, beside = text.split("\n\n")
    if not standing["has_names"]:
        assert re.search(
            r"^    Task 0x[0-9a-f]+ \(waiting\)\n        leaf \(.*target_tasks\.py:\d+\)$", main, re.M
        )
        return
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


def test_tasks_of_uvloop_stand_below_their_threads(
    probing: harness.Cli, target: Callable[..., harness.Target]
) -> None:
    seen = probing("bt", "-t", target("uvloop").pid, "--json").expect(0).json
    assert seen["tasks"] == []
    main, beside = (
        {task["name"] for task in thread["tasks"]} for thread in seen["threads"] if thread["tasks"]
    )
    assert {"main1", "main2"} <= main
    assert {"beside1", "beside2"} <= beside
