"""python.compiles: what torch.compile did and why, also before the probe came. Needs build/torch-venv."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from harness import ROOT, Cli, clean_environment, rows, wait_until
from users import User

PYTHON = ROOT / "build/torch-venv/bin/python"
pytestmark = [
    pytest.mark.slow(300),
    pytest.mark.skipif(not PYTHON.exists(), reason="build/torch-venv is not there"),
]

# changing() is compiled for each size until torch gives up; breaking() has a graph break; dynamic() is
# compiled twice.
JOB = """
import sys, torch

@torch.compile(backend="eager", dynamic=False)
def changing(x):
    return x.sin() + 1

@torch.compile(backend="eager")
def breaking(x):
    y = x * 2
    torch._dynamo.graph_break()
    return y + 1

@torch.compile(backend="aot_eager")
def dynamic(x):
    return (x * x).cos()

for size in range(3, 15):
    changing(torch.ones(size))
breaking(torch.ones(3))
print("ready", flush=True)
for line in sys.stdin:
    dynamic(torch.ones(int(line)))
    print("done", flush=True)
"""


@pytest.fixture(scope="module")
def compiling() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [str(PYTHON), "-c", JOB],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )
    assert process.stdout.readline() == "ready\n"
    yield process
    process.stdin.close()
    assert process.wait(60) == 0
    assert "robing" not in process.stderr.read(), "nothing of ours is said in the job"


def test_recompilations_up_to_the_limit_are_told_with_their_reasons(
    probing: Cli, compiling: subprocess.Popen[str]
) -> None:
    probing("-t", compiling.pid, "inject").expect(0)
    told = rows(
        probing, "SELECT * FROM python.compiles WHERE func = 'changing' ORDER BY attempt", compiling.pid
    )
    assert [row["attempt"] for row in told] == list(range(9)), "eight are torch's limit, the ninth is refused"
    assert told[0]["reason"] is None
    for row in told[1:]:
        size = row["attempt"] + 2
        assert f"size mismatch at index 0. expected {size}, actual {size + 1}" in row["reason"]
    for row in told[:8]:
        assert row["fail_type"] is None and row["guards"] > 0 and row["ops"] == 2 and row["seconds"] > 0
        assert row["file"] == "<string>" and row["lineno"] == 4 and row["inductor_seconds"] is None
    assert told[8]["fail_type"] is not None and "limit" in told[8]["fail_reason"]
    ages = rows(probing, "SELECT epoch(now() - max(timestamp)) AS age FROM python.compiles", compiling.pid)
    assert 0 <= ages[0]["age"] < 300


def test_graph_breaks_are_told(probing: Cli, compiling: subprocess.Popen[str]) -> None:
    probing("-t", compiling.pid, "inject").expect(0)
    [first] = rows(probing, "SELECT restarts FROM python.compiles WHERE func = 'breaking'", compiling.pid)
    assert "graph_break" in first["restarts"]
    parts = rows(
        probing,
        "SELECT func FROM python.compiles WHERE func LIKE 'torch_dynamo_resume_in_breaking%'",
        compiling.pid,
    )
    assert parts
    breaks = rows(probing, "SELECT * FROM python.graph_breaks WHERE kind = 'graph_break'", compiling.pid)
    assert any("graph_break" in row["reason"] and row["count"] > 0 for row in breaks), breaks


def test_compilations_are_told_as_they_happen(probing: Cli, compiling: subprocess.Popen[str]) -> None:
    probing("-t", compiling.pid, "inject").expect(0)
    sql = "SELECT * FROM python.compiles WHERE func = 'dynamic' ORDER BY attempt"
    assert rows(probing, sql, compiling.pid) == []
    for count, size in enumerate((4, 5), start=1):
        compiling.stdin.write(f"{size}\n")
        compiling.stdin.flush()
        assert compiling.stdout.readline() == "done\n"
        told = wait_until(lambda: rows(probing, sql, compiling.pid), 10, "it is told")
        assert len(told) == count
    assert all(0 < row["backend_seconds"] <= row["seconds"] for row in told)
    assert told[0]["reason"] is None and "size mismatch" in told[1]["reason"]


def test_a_process_without_torch_compile_has_no_rows(user: User) -> None:
    one = user.probed_target()
    assert rows(user, "SELECT * FROM python.compiles", one.pid) == []
    assert rows(user, "SELECT * FROM python.graph_breaks", one.pid) == []


# A training loop whose batches have another length each time: torch.compile gives it up after eight sizes.
# The healthy one meets four sizes and three functions at its start, as people have them.
TRAINING = """
import sys, time, torch
torch.manual_seed(1)
healthy = sys.argv[1] == "healthy"
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)

@torch.compile(backend="aot_eager", dynamic=False)
def training_step(batch):
    return model(batch).square().mean()

@torch.compile(backend="eager")
def accuracy(batch):
    return (model(batch) > 0).float().mean()

def lengths():
    yield from (4, 8, 16, 32)
    length = 32
    while True:
        yield length
        if not healthy and length < 39:
            length += 1

steps = 0
for length in lengths():
    optimizer.zero_grad()
    training_step(torch.randn(length, 4)).backward()
    optimizer.step()
    with torch.no_grad():
        accuracy(torch.randn(length, 4))
    steps += 1
    if steps == 12:
        print("ready", flush=True)
    time.sleep(0.01)
"""


@pytest.fixture
def training(probing: Cli) -> Iterator[Callable[[str], int]]:
    started: list[subprocess.Popen[str]] = []

    def start(kind: str) -> int:
        command = [str(PYTHON), "-c", TRAINING, kind]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment()
        )
        started.append(process)
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        probing("-t", process.pid, "inject").expect(0)
        wait_until(lambda: rows(probing, "SELECT 1 FROM python.recompiles", process.pid), 30, "it is noted")
        return process.pid

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_job_that_compiles_again_and_again_is_named(probing: Cli, training: Callable[[str], int]) -> None:
    pid = training("changing")
    noted = rows(
        probing, "SELECT * FROM python.recompiles WHERE func = 'training_step' ORDER BY timestamp", pid
    )
    assert [row["attempt"] for row in noted][:3] == [1, 2, 3] and "size mismatch" in noted[0]["reason"]

    def findings() -> list[dict[str, Any]]:
        return probing("-t", pid, "diagnose", "--json", "--class", "recompilation").json["findings"]

    [finding] = wait_until(findings, 30, "it is found")
    assert "training_step (<string>:" in finding["evidence"], finding
    assert "was compiled again" in finding["evidence"] and "size mismatch" in finding["evidence"]
    assert "torch has reached its limit and runs it uncompiled" in finding["evidence"]
    assert "accuracy" not in finding["evidence"] and finding["severity"] == "warning"
    command = shlex.split(finding["next"])[1:]
    assert "size mismatch" in probing(*command).expect(0).stdout
    # Asked of rings: no need of the interpreter. Nothing is noted twice.
    again = rows(probing, "SELECT count(DISTINCT compile_id) - count(*) AS n FROM python.recompiles", pid)
    assert again == [{"n": 0}]


def test_a_job_that_compiles_at_its_start_is_healthy(probing: Cli, training: Callable[[str], int]) -> None:
    pid = training("healthy")
    noted = rows(probing, "SELECT func, count(*) AS n FROM python.recompiles GROUP BY func", pid)
    assert {row["func"]: row["n"] for row in noted}["training_step"] == 3, noted
    answer = probing("-t", pid, "diagnose", "--json", "--class", "recompilation", "--patience", 60)
    assert answer.json["findings"] == []
