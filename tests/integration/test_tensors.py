"""Tensors and arrays in `backtrace --locals` have the shape, type and device that Python says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest

TORCH = harness.ROOT / "build/torch-venv/bin/python"


def read(
    probing: harness.Cli, target: Callable[..., harness.Target], name: str, path: Path
) -> tuple[Any, Any]:
    """What the program says about its variables, and what is seen."""
    if not TORCH.exists():
        pytest.skip("needs torch and numpy in build/torch-venv (1 GB)")
    target(name, path, python=str(TORCH))
    truth = json.loads(path.read_text())
    [thread] = [
        thread
        for thread in probing("bt", "-t", truth["pid"], "--locals", "--json").expect(0).json["threads"]
        if thread["tid"] == truth["pid"]
    ]
    return truth["variables"], thread["frames"][0]


def test_single_numbers_have_their_values(
    probing: harness.Cli, target: Callable[..., harness.Target], tmp_path: Path
) -> None:
    truth, frame = read(probing, target, "numbers", tmp_path / "truth.json")
    wrong = {
        name: (frame["locals"][name], text) for name, text in truth.items() if frame["locals"][name] != text
    }
    assert wrong == {}
    assert len(truth) > 50
    assert frame["arguments"] == ["first", "second", "third"]


def test_tensors_are_what_python_says(
    probing: harness.Cli, target: Callable[..., harness.Target], tmp_path: Path
) -> None:
    truth, frame = read(probing, target, "tensors", tmp_path / "truth.json")
    seen = frame["locals"]
    for name, texts in truth.items():
        expected = f"[{', '.join(texts)}]" if name.startswith("types_") else texts[0]
        assert seen[name] == expected, name
    assert len(truth) > 20
