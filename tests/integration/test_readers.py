"""Recordings, opened by readers that others wrote."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import harness
from harness import Cli

StartTarget = Callable[..., harness.Target]


def test_a_pprof_profile_is_read_by_pprof_format(probing: Cli, target: StartTarget, tmp_path: Path) -> None:
    busy = target("shares")
    path = tmp_path / "out.pb"
    probing("-t", busy.pid, "record", "-d", 1, "-r", 100, "-f", "pprof", "-o", path).expect(0)
    script = Path(__file__).with_name("read_pprof.mjs")
    done = subprocess.run(["node", str(script), str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    profile = json.loads(done.stdout)
    assert profile["types"] == [["samples", "count"], ["wall", "nanoseconds"], ["cpu", "nanoseconds"]]
    assert profile["period"] == 10_000_000
    assert profile["durationNs"] >= 900_000_000
    innermost = {sample["stack"][0][0] for sample in profile["samples"]}
    assert "hot" in innermost
    for sample in profile["samples"]:
        assert len(sample["values"]) == len(profile["types"])
        function, file, line = sample["stack"][-1]
        assert (function, Path(file).name, line > 0) == ("<module>", "target_shares.py", True)
    # A sample stands for one period of time.
    for sample in profile["samples"]:
        samples, wall, _ = sample["values"]
        assert wall == samples * profile["period"]
