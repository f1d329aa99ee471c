"""probing.torch.nvtx: the job's ranges as rows, and modules as ranges. The library is played by a stand-
in."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli, rows, wait_until

TORCH = harness.ROOT / "build/torch-venv/bin/python"
pytestmark = [
    pytest.mark.skipif(
        not TORCH.exists(), reason="needs torch in build/torch-venv (tools/install_deps.sh torch, 1 GB)"
    ),
    pytest.mark.slow(200),
]

# `ranges` is what a profiler beside the job would see; a line on stdin makes one step.
JOB = """
import sys, torch
class Nvtx:
    def __init__(self):
        self.open, self.seen, self.wrong = [], [], 0
    def rangePushA(self, name):
        self.open.append(name)
        self.seen.append("/".join(self.open))
        return len(self.open) - 1
    def rangePop(self):
        if not self.open:
            self.wrong += 1
        else:
            self.open.pop()
        return len(self.open)
    def markA(self, name):
        self.seen.append("mark " + name)
ranges = torch.cuda.nvtx._nvtx = Nvtx()
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        self.head = torch.nn.Linear(4, 1)
    def forward(self, x):
        if x.shape[0] == 3:
            raise ValueError("a batch that is wrong")
        if x.shape[0] == 5:
            print("within", flush=True)
            sys.stdin.readline()
        return self.head(self.body(x))
model = Model()
print("ready", flush=True)
for line in sys.stdin:
    ranges.seen.clear()
    with torch.cuda.nvtx.range("step {}", line.strip()):
        torch.cuda.nvtx.mark("begun")
        with torch.profiler.record_function("forward"):
            try:
                model(torch.ones(int(line), 4))
            except ValueError:
                pass
    hooks = torch.nn.modules.module
    left = len(hooks._global_forward_hooks) + len(hooks._global_forward_pre_hooks)
    print([ranges.seen, ranges.open, ranges.wrong, left, torch.cuda.nvtx.range_push.__module__], flush=True)
"""
PLAIN = ["step 2", "mark begun"]
NAMED = ["step 2", "mark begun", "step 2/Model", "step 2/Model/body", "step 2/Model/body/body.0"]
NAMED += ["step 2/Model/body/body.1", "step 2/Model/head"]


class Job:
    def __init__(self, output: Path) -> None:
        self.errors = output.open("wb")
        self.process = subprocess.Popen(
            [str(TORCH), "-c", JOB],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=harness.clean_environment(OMP_NUM_THREADS="1"),
        )
        self.pid = self.process.pid
        assert self.read() == "ready"

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def write(self, line: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def step(self, size: int) -> list[Any]:
        """[names pushed, still open, pops too many, hooks, module of range_push]"""
        self.write(size)
        told: list[Any] = ast.literal_eval(self.read())
        return told


@pytest.fixture
def job(tmp_path: Path, probing: Cli) -> Iterator[Job]:
    one = Job(tmp_path / "errors")
    probing("-t", one.pid, "inject").expect(0)
    yield one
    assert one.process.stdin is not None
    one.process.stdin.close()
    assert one.process.wait(60) == 0
    assert (tmp_path / "errors").read_bytes() == b""


def test_the_jobs_ranges_are_spans(probing: Cli, job: Job) -> None:
    probing("-t", job.pid, "config", "probing.torch.nvtx=spans").expect(0)
    sql = "SELECT name, kind, duration_ms FROM python.spans ORDER BY timestamp"

    def seen() -> list[dict[str, Any]] | None:
        job.step(2)
        found = rows(probing, sql, job.pid)  # the setting may come in the middle of a step
        return found if len({row["name"] for row in found}) >= 3 else None

    found = wait_until(seen, 30, "ranges are rows")
    assert {row["name"] for row in found} == {"step 2", "begun", "forward"}
    assert all((row["duration_ms"] is None) == (row["kind"] == "event") for row in found)
    outer = next(row for row in found if row["name"] == "step 2")
    inner = next(row for row in found if row["name"] == "forward")
    assert outer["duration_ms"] >= inner["duration_ms"] > 0
    probing("-t", job.pid, "config", "probing.torch.nvtx=none").expect(0)
    wait_until(lambda: job.step(2)[4] == "torch.cuda.nvtx", 30, "it is put back")
    count = rows(probing, "SELECT count(*) AS n FROM python.spans", job.pid)
    assert job.step(2)[0] == PLAIN
    assert rows(probing, "SELECT count(*) AS n FROM python.spans", job.pid) == count


def test_modules_are_ranges_of_their_names(probing: Cli, job: Job) -> None:
    assert job.step(2)[0] == PLAIN
    probing("-t", job.pid, "config", "probing.torch.nvtx=modules").expect(0)
    wait_until(lambda: job.step(2)[3] == 2, 30, "the hooks are there")
    assert job.step(2)[:3] == [NAMED, [], 0]
    assert job.step(3)[:3] == [["step 3", "mark begun", "step 3/Model"], [], 0]  # it raises
    assert job.step(2)[:3] == [NAMED, [], 0]
    # Switched off within a call: what was begun is ended, and the hooks go with it.
    job.write(5)
    assert job.read() == "within"
    probing("-t", job.pid, "config", "probing.torch.nvtx=none").expect(0)
    told = job.step(0)  # the line that the call waits for
    assert told[1:3] == [[], 0], told
    wait_until(lambda: job.step(2)[3] == 0, 30, "the hooks are gone")
    assert job.step(2)[:4] == [PLAIN, [], 0, 0]
    probing("-t", job.pid, "config", "probing.torch.nvtx=modules").expect(0)
    wait_until(lambda: job.step(2)[3] == 2, 30, "the hooks are there again")
    probing("-t", job.pid, "eject").expect(0)
    assert job.step(2)[:4] == [PLAIN, [], 0, 0]
