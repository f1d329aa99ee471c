"""Suspended greenlets, read from outside, are what Python says they are.

greenlet and gevent are installed for the Python that runs the tests. `PROBING_GREENLET_PYTHONS` names more
interpreters that have them, separated by colons.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli
from test_core_files import make_core

StartTarget = Callable[..., harness.Target]

PYTHONS = [sys.executable, *filter(None, os.environ.get("PROBING_GREENLET_PYTHONS", "").split(":"))]


def stacks(greenlets: list[dict[str, Any]]) -> list[list[list[Any]]]:
    return sorted([[f["func"], f["file"], f["lineno"]] for f in one["frames"]] for one in greenlets)


def expect_truth(seen: dict[str, Any], truth: dict[str, Any]) -> None:
    main, beside = seen["threads"]
    assert stacks(main["greenlets"]) == sorted(truth["main"])
    assert stacks(beside["greenlets"]) == sorted(truth["beside"])
    for thread in (main, beside):
        assert [one["main"] for one in thread["greenlets"]] == [True] + [False] * 5
        assert {one["type"] for one in thread["greenlets"]} == {"greenlet.greenlet", "Worker"}
    assert main["frames"][0]["func"] == "wait_here"
    assert (seen["greenlets"], seen["greenlets_unknown"]) == ([], None)
    assert seen["greenlet_count"] == len(truth["main"]) + len(truth["beside"])


@pytest.mark.parametrize("how", ["", "exposed"])
@pytest.mark.parametrize("interpreter", PYTHONS)
def test_greenlets_are_what_python_says(
    probing: Cli, target: StartTarget, tmp_path: Path, interpreter: str, how: str
) -> None:
    path = tmp_path / "truth.json"
    started = target("greenlets", path, how, python=interpreter)
    truth = json.loads(path.read_text())
    expect_truth(probing("bt", "-t", started.pid, "--json").expect(0).json, truth)
    expect_truth(probing("bt", "-t", started.pid, "--json", "--stop").expect(0).json, truth)
    expect_truth(probing("bt", "-t", started.pid, "--json", "--greenlets").expect(0).json, truth)
    started.expect_unharmed()


@pytest.mark.parametrize("interpreter", PYTHONS)
def test_a_core_file_has_greenlets(
    probing: Cli, target: StartTarget, tmp_path: Path, interpreter: str
) -> None:
    path = tmp_path / "truth.json"
    started = target("greenlets", path, python=interpreter)
    core = make_core(started.pid, tmp_path)
    expect_truth(probing("bt", "--core", core, "--json").expect(0).json, json.loads(path.read_text()))


@pytest.mark.parametrize("interpreter", PYTHONS)
def test_greenlets_of_gevent_stand_below_their_thread(
    probing: Cli, target: StartTarget, interpreter: str
) -> None:
    started = target("gevent", python=interpreter)

    def text_while_the_hub_runs() -> str | None:
        text = probing("bt", "-t", started.pid).expect(0).stdout
        hub, _, greenlets = text.partition("Main greenlet")
        return text if "run (" in hub and "serve (" in greenlets else None

    shown = harness.wait_until(text_while_the_hub_runs)  # it says ready before it waits
    assert shown.count("        take_from_queue (") == 3
    assert shown.count("        worker (") == 3
    assert shown.count("        sleeper (") == 1
    assert shown.count("        serve (") == 1
    assert shown.index("Main greenlet") < shown.index("    Greenlet 0x")


def test_a_python_without_greenlets_has_none(probing: Cli, target: StartTarget) -> None:
    seen = probing("bt", "-t", target("busy").pid, "--json").expect(0).json
    assert (seen["greenlet_count"], seen["greenlets"], seen["greenlets_unknown"]) == (0, [], None)
    assert [thread["greenlets"] for thread in seen["threads"]] == [[]]
