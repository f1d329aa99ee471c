"""What there is more and more of: python.leaks and `memory --leaks`, without PyTorch."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from harness import Cli, Target

StartTarget = Callable[..., Target]


def test_objects_that_are_kept_are_named(probing: Cli, target: StartTarget) -> None:
    job = target("leaks", LD_PRELOAD=str(probing.bin / "libprobing.so"))
    leaks = probing("-t", job.pid, "memory", "--leaks", "-d", "1", "--json").expect(0).json
    by_type = {row["type"]: row for row in leaks}
    assert by_type["__main__.Record"]["grown"] > 50
    assert by_type["__main__.Record"]["count"] >= by_type["__main__.Record"]["grown"]
    assert not [name for name in by_type if "Keeper" in name]
    # Who has them: the job's own objects, closures, and what the collector does not know (as NumPy's arrays).
    assert re.match(r"list of \d+ ← records of a Keeper ← ", by_type["__main__.Record"]["holder"]), by_type
    assert re.match(r"list of \d+ ← callbacks in keep\(\)", by_type["builtins.function"]["holder"]), by_type
    assert by_type["bytes"]["grown_mb"] > 1 and "arrays" in by_type["bytes"]["holder"], by_type
    job.expect_unharmed()


def test_a_job_that_keeps_nothing_has_no_leaks(probing: Cli, target: StartTarget) -> None:
    job = target("busy", LD_PRELOAD=str(probing.bin / "libprobing.so"))
    assert probing("-t", job.pid, "memory", "--leaks", "-d", "0.5", "--json").expect(0).json == []
    job.expect_unharmed()


def test_leaks_are_printed_as_sentences_that_fit_a_terminal(probing: Cli, target: StartTarget) -> None:
    job = target("leaks", LD_PRELOAD=str(probing.bin / "libprobing.so"))
    answer = probing("-t", job.pid, "memory", "--leaks", "-d", "1").expect(0)
    assert re.search(
        r"^__main__\.Record: \d+, \d+ more in [\d.]+ s, \+[\d.]+ MB of ", answer.stdout, re.MULTILINE
    ), answer
    assert "│" not in answer.stdout


def test_no_leak_is_said_and_so_is_that_there_is_no_probe(probing: Cli, target: StartTarget) -> None:
    job = target("busy", LD_PRELOAD=str(probing.bin / "libprobing.so"))
    answer = probing("-t", job.pid, "memory", "--leaks", "-d", "0.5").expect(0)
    assert answer.stdout == "nothing grew steadily in 0.5 s; a slow leak needs longer: --duration 60\n"
    other = target("busy")
    answer = probing("-t", other.pid, "memory", "--leaks").expect(4)
    assert answer.stderr.count("has no probe") == 1 and f"probing -t {other.pid} inject" in answer.stderr


def test_looking_at_all_objects_harms_no_tuple_that_is_being_made(
    probing: Cli, target: StartTarget, python: str
) -> None:
    """A reference to a half-made tuple makes tuple(generator) fail in the job."""
    if python.endswith("t"):
        pytest.skip("without a GIL nothing keeps the job from going on meanwhile")
    job = target("leaks", python=python, LD_PRELOAD=str(probing.bin / "libprobing.so"))
    for table in ("leaks", "modules", "tensors"):
        for _ in range(3):
            probing("-t", job.pid, "query", f"SELECT count(*) FROM python.{table}").expect(0)
    job.expect_progress("tuples")
    job.expect_unharmed()


def test_leaks_are_looked_for_in_one_process(probing: Cli, target: StartTarget) -> None:
    answer = probing("memory", "--leaks").expect(2)
    assert "probing -t PID memory --leaks" in answer.stderr
