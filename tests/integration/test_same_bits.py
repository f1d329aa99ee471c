"""A training computes the same, bit by bit, whether it is looked into all the time or never."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import harness
import pytest
from harness import Cli, Target, ask_daemon, wait_until

StartTarget = Callable[..., Target]
TORCH = harness.ROOT / "build/torch-venv/bin/python"
pytestmark = pytest.mark.skipif(
    not TORCH.exists(), reason="needs torch in build/torch-venv (tools/install_deps.sh torch)"
)
TRACING = "probing.torch.profiling=full,nan=on,census=on,exprs=loss@main"
LIVE = "SELECT table_name FROM probing.tables WHERE kind = 'live'"
PAUSE = 0.01  # after each step: as long as a round's questions, some come in each part of a step
EVALS: list[dict[str, str]] = [
    {"code": "import torch; torch.is_grad_enabled(), torch.initial_seed()"},
    {"code": "sum(len(repr(v)) for v in list(globals().values()))"},
    {"code": "float(model[0].weight.norm()), float(loss)", "frame": "-1"},
    {"code": "sum(float(p.grad.norm()) for p in model.parameters())", "at": "step", "frame": "1"},
]


def outermost_but_one(job: Target) -> str:
    """The number of the frame of main(): below it is the module."""
    code = "import sys, threading\nf = sys._current_frames()[threading.main_thread().ident]\nn = 0\n"
    code += "while f.f_code.co_name != 'main': f, n = f.f_back, n + 1\nn"
    return ask_daemon("POST", "eval", {"target": job.pid, "code": code}).get("value", "0")


class Questions:
    def __init__(self, probing: Cli, job: Target) -> None:
        self.probing, self.job = probing, job
        self.asked = self.answered = 0
        self.tables: list[str] = []

    def evaluate(self, request: dict[str, str]) -> None:
        frame = {"frame": outermost_but_one(self.job)} if request.get("frame") == "-1" else {}
        answer = ask_daemon("POST", "eval", {"target": self.job.pid, "timeout": 2, **request, **frame})
        self.note(answer.get("outcome") == "ok", answer)

    def query(self, sql: str) -> None:
        self.note(
            "rows" in (answer := ask_daemon("POST", "query", {"target": self.job.pid, "sql": sql})), answer
        )

    def note(self, good: bool, answer: object) -> None:
        self.asked += 1
        self.answered += good
        assert self.job.alive(), f"the job died: {answer}"

    def one_visit(self) -> None:
        """Enters, traces, samples, asks everything, leaves: one second."""
        begun = time.monotonic()
        self.probing("-t", self.job.pid, "inject").expect(0)
        self.probing("-t", self.job.pid, "config", TRACING, "probing.sample_rate=0.01").expect(0)
        if not self.tables:
            self.tables = [row["table_name"] for row in harness.rows(self.probing, LIVE, self.job.pid)]
            assert {"python.tensors", "python.leaks", "python.modules", "python.stacks"} <= set(self.tables)
        while True:
            for table in self.tables:
                self.query(f"SELECT * FROM {table}")
            for request in EVALS:
                self.evaluate(request)
            if time.monotonic() - begun > 1:
                break
        self.probing("-t", self.job.pid, "eject").expect(0)


def losses_of(folder: Path) -> list[str]:
    return (folder / "losses").read_text().split()


def compare(probing: Cli, target: StartTarget, folder: Path, kind: str, questions: int) -> None:
    watched, alone = folder / "watched", folder / "alone"
    watched.mkdir()
    alone.mkdir()
    job = target("same_bits", kind, watched, 0, PAUSE, python=str(TORCH))
    asking = Questions(probing, job)
    while asking.asked < questions:
        asking.one_visit()
    (watched / "stop").touch()
    wait_until(lambda: not job.alive() or job.report()["done"], 60, "its last epoch ends")
    job.expect_unharmed()
    assert asking.answered > 0.8 * asking.asked, "questions were answered, not only asked"
    epochs = job.report()["epochs"]
    again = target("same_bits", kind, alone, epochs, 0, python=str(TORCH))
    wait_until(lambda: not again.alive() or again.report()["done"], 60 + 5 * epochs, "the other one is done")
    again.expect_unharmed()
    assert len(losses_of(alone)) == job.report()["steps"] > 0
    assert losses_of(watched) == losses_of(alone)


@pytest.mark.parametrize("kind", ["fork", "spawn"])
@pytest.mark.slow(180)
def test_losses_are_the_same_bit_by_bit(probing: Cli, target: StartTarget, tmp_path: Path, kind: str) -> None:
    compare(probing, target, tmp_path, kind, 40)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["fork", "spawn"])
@pytest.mark.slow(7200)
def test_losses_are_the_same_after_twenty_thousand_questions(
    probing: Cli, target: StartTarget, tmp_path: Path, kind: str
) -> None:
    """10,000 for each way of starting workers."""
    compare(probing, target, tmp_path, kind, 10_000)
