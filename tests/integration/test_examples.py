"""The examples of PyTorch: each one's first lines have commands that find its problem, and they do."""

from __future__ import annotations

import ast
import itertools
import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import harness
import pytest
from harness import Cli, wait_until

TORCH = harness.ROOT / "build/torch-venv/bin/python"
EXAMPLES = harness.ROOT / "examples"

pytestmark = [
    pytest.mark.skipif(
        not TORCH.exists(), reason="needs torch in build/torch-venv (tools/install_deps.sh torch, 1 GB)"
    ),
    pytest.mark.slow(400),
]


def commands(name: str) -> list[str]:
    """Those of the example's first lines; one goes on where the next line begins further right."""
    text = ast.get_docstring(ast.parse((EXAMPLES / f"{name}.py").read_text()), clean=False) or ""
    found: list[str] = []
    for line in text.splitlines():
        if line.startswith("    probing "):
            found.append(line.strip())
        elif line.startswith("        ") and found:
            found[-1] += " " + line.strip()
    return found


class Example:
    """One that runs, and its commands."""

    def __init__(self, probing: Cli, name: str, pids: list[int]) -> None:
        self.probing, self.pids, self.commands = probing, pids, commands(name)

    def words(self, number: int) -> list[str]:
        text = self.commands[number].replace("<pid>", str(self.pids[0]))
        for rank, pid in enumerate(self.pids):
            text = text.replace(f"<pid of rank {rank}>", str(pid))
        return shlex.split(text)[1:]

    def run(self, number: int) -> str:
        """What the command answers: 0, 1 or 2."""
        return self.probing(*self.words(number)).expect(0).stdout

    def rows(self, number: int) -> list[dict[str, Any]]:
        """The same of a query, or of a command that has --json."""
        words = self.words(number)
        if "query" in words:
            at = words.index("query") + 1
            words[at:at] = ["-f", "json"]
        else:
            words.append("--json")
        return json.loads(self.probing(*words).expect(0).stdout)


@pytest.fixture
def example(probing: Cli) -> Iterator[Callable[..., Example]]:
    """Starts one: example("leak"), example("ddp", ranks=2, profiling="on")."""
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, ranks: int = 0, profiling: str = "off") -> Example:
        environment = harness.clean_environment(
            LD_PRELOAD=str(harness.BIN / "libprobing.so"), PROBING_TORCH_PROFILING=profiling
        )
        command = [str(TORCH), str(EXAMPLES / f"{name}.py")]
        job = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, start_new_session=True)
        started.append(job)
        assert job.stdout is not None
        pids = [int(job.stdout.readline().split()[-1]) for _ in range(ranks)] or [job.pid]
        for pid in pids:
            wait_until(lambda pid=pid: harness.probe_socket(pid), 150, f"{name} is probed")
        return Example(probing, name, pids)

    yield start
    for job in started:
        died = job.poll()
        os.killpg(job.pid, signal.SIGKILL)
        job.communicate()
        assert died is None, f"an example ended: {died}"


def test_every_example_has_three_commands() -> None:
    for path in sorted(EXAMPLES.glob("*.py")):
        if path.name not in {"demo_train.py", "two_ranks.py"}:
            assert len(commands(path.stem)) == 3, path.name


def test_a_first_look(example: Callable[..., Example]) -> None:
    job = example("test_probing")
    wait_until(lambda: "train (" in job.run(0), 150, "it trains")
    job.run(1)
    steps = wait_until(lambda: job.rows(2), 30, "steps")
    assert steps[0]["forward"] > 0


@pytest.mark.load_dependent("backward passes of a millisecond are told apart, which a busy machine blurs")
def test_the_slow_layer_of_a_transformer(example: Callable[..., Example]) -> None:
    job = example("transformer")
    wait_until(lambda: "transformer.py" in job.probing("-t", job.pids[0], "backtrace").stdout, 150, "it runs")
    job.run(0)
    wait_until(
        lambda: (
            {(row["module"], row["stage"]) for row in job.rows(1)[:2]}
            == {("blocks.3", "forward"), ("blocks.3", "backward")}
        ),
        60,
        "it stands out from the noise",
    )
    assert "AttentionWordByWord.forward" in job.run(2) or "forward (transformer.py:38" in job.run(2)


def test_who_holds_what_leaks(example: Callable[..., Example]) -> None:
    job = example("leak")
    trains = ("-t", job.pids[0], "backtrace")
    wait_until(lambda: "Trainer.step" in job.probing(*trains).stdout, 150, "it trains")
    assert job.rows(0)[0]["rss_mb"] > 0
    # The sources of a prompt share a namespace with those that look for leaks, and had names in common.
    assert job.probing("-t", job.pids[0], "repl", stdin="6 * 7\n").expect(0).stdout == "42\n"
    leaks = job.rows(1)
    assert (leaks[0]["type"], leaks[0]["shape"], leaks[0]["made_by"]) == ("Tensor", "[]", "MseLossBackward0")
    assert leaks[0]["grown"] > 20
    assert leaks[0]["holder"].startswith("list of ")
    assert "← history of a Trainer ← trainer in main() at leak.py:" in leaks[0]["holder"]
    assert job.rows(2)[0]["shape"] == "[]"


def test_gradients_that_are_exchanged_too_often(example: Callable[..., Example]) -> None:
    job = example("ddp", ranks=2, profiling="on")
    wait_until(lambda: [row["rank"] for row in job.rows(0)] == [0, 1], 150, "steps of both ranks")
    gradients = (64 * 256 + 256 + 256 + 1) * 4
    wait_until(lambda: any(row["bytes"] == gradients for row in job.rows(1)), 30, "all_reduces of gradients")

    # Not at once: what ends a step of this job is learnt from its first ones.
    def all_reduces() -> list[int]:
        return [row["all_reduces"] for row in job.rows(2)]

    wait_until(lambda: len(counts := all_reduces()) == 5 and set(counts[1:]) == {4}, 30, "four in each step")
    assert set(all_reduces()[1:]) == {4}, "and it stays so"


def test_the_same_steps_are_traced_on_all_ranks(probing: Cli, example: Callable[..., Example]) -> None:
    job = example("ddp", ranks=2, profiling="on,rate=0.2")
    sql = "SELECT DISTINCT step FROM python.torch_trace ORDER BY step"

    def traced(pid: int) -> list[int]:
        return [row["step"] for row in probing("-t", pid, "query", "-f", "json", sql).expect(0).json]

    def both() -> tuple[list[int], list[int]] | None:
        first, second = traced(job.pids[0]), traced(job.pids[1])
        return (first, second) if min(len(first), len(second)) >= 8 else None

    first, second = wait_until(both, 150, "eight traced steps on both ranks")
    last = min(first[-1], second[-1])
    assert [step for step in first if step <= last] == [step for step in second if step <= last]
    assert len({b - a for a, b in itertools.pairwise(first)}) > 1, "not every fifth one"


def test_the_rank_that_left_the_others_waiting(example: Callable[..., Example]) -> None:
    job = example("hang", ranks=2, profiling="on")

    def apart() -> list[dict[str, Any]] | None:
        rows = job.rows(0)
        if len(rows) != 2 or rows[0]["seq"] >= rows[1]["seq"]:
            return None
        time.sleep(2.5)  # torch's records are read once a second: two equal answers may be one reading
        return rows if rows == job.rows(0) else None

    behind, ahead = wait_until(apart, 150, "one rank is behind, and stays there")
    assert (behind["rank"], ahead["rank"]) == (1, 0)
    [waiting] = wait_until(lambda: len(rows := job.rows(1)) == 1 and rows, 20, "one collective is open")
    assert (waiting["seq"], waiting["op"], waiting["bytes"]) == (ahead["seq"], "all_reduce", 16 * 4)
    assert "look_at_bad_batch" in job.run(2)


def test_the_rank_that_the_others_wait_for(example: Callable[..., Example]) -> None:
    job = example("straggler", ranks=2, profiling="on")
    trains = ("-t", job.pids[1], "backtrace")
    wait_until(lambda: "train (" in job.probing(*trains).stdout, 150, "it trains")
    for number in (0, 1):  # the first steps, and those of a test before this one, are over at some time
        wait_until(lambda n=number: [row["rank"] for row in job.rows(n)] == [1], 150, "rank 1 is named")
    assert "read_from_a_slow_disk" in job.run(2)
