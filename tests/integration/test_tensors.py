"""Tensors and arrays in `backtrace --locals` have the shape, type and device that Python says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import harness
import pytest

TORCH = harness.ROOT / "build/torch-venv/bin/python"


def test_tensors_are_what_python_says(
    probing: harness.Cli, target: Callable[..., harness.Target], tmp_path: Path
) -> None:
    if not TORCH.exists():
        pytest.skip("needs torch and numpy in build/torch-venv (1 GB)")
    path = tmp_path / "truth.json"
    target("tensors", path, python=str(TORCH))
    truth = json.loads(path.read_text())
    [thread] = [
        thread
        for thread in probing("bt", "-t", truth["pid"], "--locals", "--json").expect(0).json["threads"]
        if thread["tid"] == truth["pid"]
    ]
    seen = thread["frames"][0]["locals"]
    for name, texts in truth["variables"].items():
        expected = f"[{', '.join(texts)}]" if name.startswith("types_") else texts[0]
        assert seen[name] == expected, name
    assert len(truth["variables"]) > 20
