"""`probing debug log`, `watch` and `trace`: values at a line, without stopping, gone after eject."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from harness import TARGETS, Answer, Cli, Target, version_of, wait_until, wanted_pythons

StartTarget = Callable[..., Target]
SOURCE = (TARGETS / "target_training.py").read_text().splitlines()
UPDATE_LINE = 1 + next(i for i, line in enumerate(SOURCE) if "# the update" in line)
VERSIONS = wanted_pythons(lambda one: version_of(one) >= (3, 7) and not one.endswith("t"))


def rows(probing: Cli, job: Target, columns: str = "expression, value", where: str = "") -> list[dict]:
    sql = f"SELECT {columns} FROM python.logpoints {where} ORDER BY timestamp"
    return probing("-t", job.pid, "query", "--json", sql).expect(0).json


@pytest.mark.parametrize("python", VERSIONS)
def test_values_at_a_line_that_runs_now(probing: Cli, training: Callable[..., Target], python: str) -> None:
    """train() is called once and never returns: the call under way is what is looked at."""
    job = training(python)
    place = f"target_training.py:{UPDATE_LINE}"
    probing("-t", job.pid, "debug", "log", place, "lr, step * 0, nonsense").expect(0)
    wait_until(lambda: len(rows(probing, job)) >= 6, 20, "rows come")
    found = {row["expression"]: row["value"] for row in rows(probing, job)}
    assert found["lr"] == "0.001"
    assert found["step * 0"] == "0"
    assert found["nonsense"] == "NameError: name 'nonsense' is not defined"
    first = rows(probing, job, "lineno, func, file, tid")[0]
    assert (first["lineno"], first["func"], first["tid"]) == (UPDATE_LINE, "train", job.pid)
    assert first["file"].endswith("target_training.py")
    probing("-t", job.pid, "eject").expect(0)
    job.expect_progress("steps")


@pytest.mark.parametrize("python", VERSIONS)
def test_values_in_a_function_that_is_called_again(
    probing: Cli, training: Callable[..., Target], python: str
) -> None:
    job = training(python)
    line = 1 + next(i for i, text in enumerate(SOURCE) if "return y" in text)
    place = f"target_training.py:{line}"
    answer = probing(
        "-t", job.pid, "debug", "log", place, "self.weight, (x, 1)", "--if", "x > 0", "--max", "4"
    )
    answer.expect(0)
    wait_until(lambda: len(rows(probing, job)) == 4, 20, "as many rows as wanted")
    assert rows(probing, job)[1] == {"expression": "(x, 1)", "value": "(1.0, 1)"}
    wait_until(lambda: "no points" in probing("-t", job.pid, "debug", "points").expect(0).stdout, 10)
    job.expect_progress("steps")


@pytest.mark.parametrize("python", VERSIONS)
def test_arguments_and_what_is_returned_are_watched(
    probing: Cli, training: Callable[..., Target], python: str
) -> None:
    job = training(python)
    probing("-t", job.pid, "debug", "watch", "Model.forward", "--return", "--locals", "y").expect(0)
    probing("-t", job.pid, "debug", "watch", "update", "--args").expect(0)
    wait_until(lambda: {row["expression"] for row in rows(probing, job)} == {"return", "y", "args"}, 20)
    last = rows(probing, job, where="WHERE expression = 'args'")[-1]
    assert "lr=0.001" in last["value"]
    assert "gradient=1.0" in last["value"]
    listed = probing("-t", job.pid, "debug", "points").expect(0).stdout
    assert "Model.forward" in listed and "update" in listed
    assert probing("-t", job.pid, "debug", "remove", "all").expect(0).stdout == "removed: 1, 2\n"
    job.expect_progress("steps")


@pytest.mark.parametrize("python", VERSIONS)
def test_a_call_is_traced_as_a_tree(probing: Cli, training: Callable[..., Target], python: str) -> None:
    job = training(python)
    probing("-t", job.pid, "debug", "trace", "update").expect(0)
    wait_until(lambda: rows(probing, job), 20, "one call was traced")
    assert rows(probing, job)[0]["expression"] == "trace"
    assert re.match(r"update \d+\.\d+ ms", rows(probing, job)[0]["value"])
    probing("-t", job.pid, "debug", "trace", "whole").expect(0)
    of_whole = "WHERE expression = 'trace' AND value LIKE 'whole%'"
    wait_until(lambda: rows(probing, job, where=of_whole), 20, "one with calls in it, too")
    lines = rows(probing, job, where=of_whole)[0]["value"].splitlines()
    assert [line.split()[0] for line in lines] == ["whole", "half", "half"]
    assert all(line.startswith("  ") for line in lines[1:]), "below what called them"
    job.expect_progress("steps")


def test_a_rate_is_kept(probing: Cli, training: Callable[..., Target]) -> None:
    job = training()
    place = f"target_training.py:{UPDATE_LINE}"
    probing("-t", job.pid, "debug", "log", place, "step", "--rate", "5/s").expect(0)
    before = job.report()["steps"]
    wait_until(lambda: len(rows(probing, job)) >= 2, 20, "rows come")
    steps = [int(row["value"]) for row in rows(probing, job)]
    assert steps[1] - steps[0] > 5, "lines that ran between two rows"
    times = [row["ms"] for row in rows(probing, job, "epoch_ms(timestamp) AS ms")]
    apart = [later - earlier for earlier, later in pairwise(times)]
    assert min(apart) >= 180, f"five a second are 200 ms apart: {apart}"
    assert job.report()["steps"] > before
    spread = "count(*) AS n, epoch(max(timestamp)) - epoch(min(timestamp)) AS seconds"
    sql = f"SELECT {spread} FROM python.logpoints"

    def in_two_seconds() -> dict | None:
        [row] = probing("-t", job.pid, "query", "--json", sql).expect(0).json
        return row if row["seconds"] >= 2 else None

    seen = wait_until(in_two_seconds, 20, "rows of two seconds")
    assert seen["n"] <= 5 * seen["seconds"] + 6, "five in a second, and what a window may hold at its ends"


def test_what_cannot_be_watched_is_said(probing: Cli, training: Callable[..., Target]) -> None:
    job = training()
    for words, reason in [
        (("log", "nowhere.py:3", "x"), "no function of nowhere.py is loaded"),
        (("log", "target_training.py:5000", "x"), "has no code; the nearest"),
        (("watch", "no_such_function"), "no function no_such_function"),
        (("remove", "7"), "there is no point 7"),
    ]:
        answer = probing("-t", job.pid, "debug", *words)
        assert answer.code == 1
        assert reason in answer.stderr
    assert probing("-t", job.pid, "debug", "log", "x.py:1").code == 2
    assert probing("-t", job.pid, "debug", "nonsense").code == 2


@pytest.mark.parametrize("python", [one for one in VERSIONS if version_of(one) < (3, 12)])
def test_a_function_without_a_source_file_cannot_be_watched_before_3_12(
    probing: Cli, training: Callable[..., Target], python: str
) -> None:
    job = training(python)
    code = "import sys; exec('def made(): pass', vars(sys.modules['__main__']))"
    probing("-t", job.pid, "eval", code).expect(0)
    answer = probing("-t", job.pid, "debug", "watch", "made", "--return").expect(1)
    assert "the source of made() is needed, and <string> cannot be read (No such file" in answer.stderr


@pytest.mark.parametrize("python", VERSIONS)
def test_points_are_gone_after_eject(probing: Cli, training: Callable[..., Target], python: str) -> None:
    job = training(python)
    probing("-t", job.pid, "debug", "log", f"target_training.py:{UPDATE_LINE}", "step").expect(0)
    probing("-t", job.pid, "debug", "watch", "update").expect(0)
    wait_until(lambda: {row["expression"] for row in rows(probing, job)} > {"step"}, 20, "rows of both come")
    probing("-t", job.pid, "eject").expect(0)
    assert "libprobing" not in Path(f"/proc/{job.pid}/maps").read_text()
    job.expect_progress("steps")
    probing("-t", job.pid, "inject").expect(0)
    look = (
        "import sys; tools = getattr(sys, 'monitoring', None)\n"
        "[c for c in update.__code__.co_consts if type(c).__name__ == 'Hook'], "
        "[t for t in map(tools.get_tool, range(6)) if t] if tools else []"
    )
    assert probing("-t", job.pid, "eval", look).expect(0).stdout == "([], [])\n"


# ── scripts and frames ───────────────────────────────────────────────────────────────────────


def test_a_script_is_kept_apart_from_the_job(
    probing: Cli, training: Callable[..., Target], tmp_path: Path
) -> None:
    script = tmp_path / "check.py"
    script.write_text("import colorsys\nprint('hello', argv[1], main.__name__, __name__)\nleft_behind = 1\n")
    job = training()
    answer = probing("-t", job.pid, "script", script, "one").expect(0)
    assert answer.stdout == "hello one __main__ __probing_script__\n"
    check = "import sys; [name in sys.modules for name in ('colorsys', 'check')], 'left_behind' in globals()"
    assert probing("-t", job.pid, "eval", check).expect(0).stdout == "([False, False], False)\n"
    script.write_text("while True:\n    pass\n")
    assert probing("-t", job.pid, "script", script, "--timeout", "1").code == 5
    job.expect_progress("steps")


@pytest.mark.parametrize("python", VERSIONS)
def test_eval_reads_and_changes_the_names_of_a_frame(
    probing: Cli, training: Callable[..., Target], python: str
) -> None:
    job = training(python)

    def in_train(code: str) -> str:
        """In the frame of train(), which is the innermost one or the one that called it."""

        def attempt() -> Answer | None:
            for number in range(3):  # it may be somewhere else each time
                answer = probing("-t", job.pid, "eval", "--frame", number, code)
                if answer.code == 0:
                    return answer
            return None

        return wait_until(attempt, what="train() was found").stdout

    assert in_train("lr if gradient else None") == "0.001\n"
    in_train("loss; lr = 0.25")
    wait_until(lambda: job.report()["rate"] == 250, 10, "the loop has the new value")
    answer = probing("-t", job.pid, "eval", "--frame", 99, "1")
    assert answer.code == 1 and "there is no frame 99" in answer.stderr
    answer = probing("-t", job.pid, "eval", "--thread", 1, "1")
    assert answer.code == 1 and "no thread 1 runs Python code here" in answer.stderr
    job.expect_progress("steps")
