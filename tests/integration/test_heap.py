"""`probing memory --heap`: what is on the heap and who holds most, read from outside."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli, Target
from test_core_files import make_core

StartTarget = Callable[..., Target]
TORCH = harness.ROOT / "build/torch-venv/bin/python"
needs_torch = pytest.mark.skipif(
    not TORCH.exists(), reason="needs torch in build/torch-venv (tools/install_deps.sh torch)"
)

# What the chain to the biggest holder must have, in this order, and what the holder is.
LEAKS = {
    "cache": (["module __main__", "dict of 4,000 'cache'"], "dict of 4,000"),
    "global": (["module __main__", "list of 4,000 'losses'"], "list of 4,000"),
    "attribute": (["module __main__", "__main__.Holder 'holder'", ".history collections.deque"], None),
    "slot": (["module __main__", "__main__.Slotted 'slotted'", ".rows set of 4,000"], "set of 4,000"),
    "closure": (["function make_step.<locals>.step", "cell 'kept'", "list of 4,000"], "list of 4,000"),
    "generator": (["module __main__", "generator 'running'", "list of 4,000 'history'"], "list of 4,000"),
    "thread_local": (["['items'] list of 4,000"], "list of 4,000"),
    "cycle": (["garbage in cycles (__main__.Node)"], "garbage in cycles (__main__.Node)"),
}


def heap(probing: Cli, *arguments: Any) -> dict[str, Any]:
    answer: dict[str, Any] = probing(*arguments, "memory", "--heap", "--json").expect(0).json
    return answer


def expect_leak(seen: dict[str, Any], scenario: str) -> None:
    steps, what = LEAKS[scenario]
    top = seen["holders"][0]
    assert top["retained_bytes"] > 35 << 20, seen["holders"]
    if what is not None:
        assert top["what"] == what
    chain = iter(top["chain"])
    for step in steps:
        assert any(shown.startswith(step) for shown in chain), top["chain"]
    assert top["holds"][0]["class"] == "bytes"
    assert top["holds"][0]["count"] == 4000


def is_supported(python: str) -> bool:
    return harness.has_gil(python) and (3, 7) <= harness.version_of(python) < (3, 14)


every_python = pytest.mark.parametrize("python", harness.wanted_pythons(is_supported))
quiet = pytest.mark.load_dependent("the program may not run while it is read, longer on a busy machine")


@quiet
@every_python
@pytest.mark.parametrize("scenario", LEAKS)
def test_the_biggest_holder_is_the_leak(
    probing: Cli, target: StartTarget, python: str, scenario: str
) -> None:
    job = target("heap", scenario, python=python)
    expect_leak(heap(probing, "-t", job.pid), scenario)
    harness.wait_until(lambda: heap(probing, "-t", job.pid)["exact"], what="that nothing runs meanwhile")
    job.expect_unharmed()


@needs_torch
@pytest.mark.slow(180)
def test_tensors_count_with_their_storages(probing: Cli, target: StartTarget) -> None:
    """A list of tensors, each with a loss of its own."""
    job = target("heap", "losses", python=str(TORCH))
    seen = heap(probing, "-t", job.pid)
    top = seen["holders"][0]
    assert top["chain"] == ["module __main__", "list of 2,000 'losses'"]
    assert top["holds"][0]["class"] == "storage of tensors on cpu"
    assert top["retained_bytes"] > 2000 * 5000 * 4
    assert seen["storage_bytes"]["cpu"] >= 2000 * 5000 * 4
    job.expect_unharmed()


@needs_torch
@pytest.mark.slow(180)
def test_a_tensor_that_only_a_graph_in_cpp_holds_is_named(probing: Cli, target: StartTarget) -> None:
    job = target("heap", "held_from_c", python=str(TORCH))
    top = heap(probing, "-t", job.pid)["holders"][0]
    assert top["what"] == "torch.Tensor"
    assert top["retained_bytes"] > 32 << 20
    assert top["chain"][0].startswith("held by C or C++ code")
    job.expect_unharmed()


@pytest.mark.slow(180)
def test_two_million_objects_are_read(probing: Cli, target: StartTarget) -> None:
    job = target("heap", "many", 2_000_000)
    seen = heap(probing, "-t", job.pid)
    assert seen["tracked"] > 2_000_000
    shares = {step for holder in seen["holders"][:2] for step in holder["chain"]}
    assert {"list of 1,000,000 'rows'", "list of 1,000,000 'pairs'"} <= shares
    job.expect_unharmed()


@pytest.mark.parametrize("scenario", ["cache", "generator"])
def test_it_works_while_the_gil_is_held_in_c(probing: Cli, target: StartTarget, scenario: str) -> None:
    job = target("heap", scenario, "gil")
    harness.wait_until(lambda: job.report()["held"] == 1)
    expect_leak(heap(probing, "-t", job.pid), scenario)
    job.expect_unharmed()


@pytest.mark.parametrize("scenario", LEAKS)
def test_it_works_on_a_core_file(probing: Cli, target: StartTarget, tmp_path: Path, scenario: str) -> None:
    job = target("heap", scenario)
    core = make_core(job.pid, tmp_path)
    seen = probing("memory", "--heap", "--json", "--core", core).expect(0).json
    expect_leak(seen, scenario)
    assert seen["exact"], seen["remarks"]


@quiet
@every_python
def test_the_objects_are_those_that_the_collector_lists(
    probing: Cli, target: StartTarget, python: str, tmp_path: Path
) -> None:
    path = tmp_path / "census.json"
    job = target("heap", "census", path, python=python)
    truth = json.loads(path.read_text())

    def read() -> Any:
        answer = probing("-t", job.pid, "memory", "--heap", "--json", "--top", 100_000).expect(0).json
        return None if any("ran meanwhile" in remark for remark in answer["remarks"]) else answer

    answer = harness.wait_until(read, what="that nothing runs meanwhile")
    seen = {each["class"]: each["tracked"] for each in answer["classes"] if each["tracked"] != 0}
    assert seen == truth
    job.expect_unharmed()


def test_what_it_is_asked_wrongly_is_said(probing: Cli, target: StartTarget) -> None:
    assert "name it" in probing("memory", "--heap").expect(2).stderr
    assert "--heap" in probing("memory", "--core", "/none").expect(2).stderr
    job = target("heap", "global")
    assert "above 0" in probing("-t", job.pid, "memory", "--heap", "--top", "none").expect(2).stderr
    text = probing("-t", job.pid, "memory", "--heap", "--top", 2).expect(0).stdout
    assert "module __main__ → list of 4,000 'losses'" in text
    assert "holds 4,000 bytes" in text
