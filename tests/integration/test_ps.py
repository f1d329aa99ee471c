"""`probing ps`: the Python processes of this host, probed or not, and where each of them is."""

from __future__ import annotations

import re
from collections.abc import Callable

from harness import Cli, Target, wait_until

StartTarget = Callable[..., Target]


def test_every_python_process_is_listed_with_what_it_does(
    probing: Cli, target: StartTarget, python: str
) -> None:
    job = target("model", python=python)
    mine = next(row for row in probing("ps", "--json").expect(0).json if row["pid"] == job.pid)
    assert not mine["probed"] and mine["rss"] > 1 << 20 and "target_model.py" in mine["command"]
    assert re.fullmatch(r".+ \(target_model\.py:\d+\)", mine["doing"]), mine
    assert mine["state"] in ("running", "sleeping")
    probing("-t", job.pid, "inject").expect(0)
    rows = probing("ps", "--json").expect(0).json
    assert next(row for row in rows if row["pid"] == job.pid)["probed"]
    job.expect_unharmed()


def test_ranks_stand_together_and_a_busy_one_is_seen(probing: Cli, target: StartTarget) -> None:
    ranks = [target("busy", RANK=str(rank), WORLD_SIZE="2", PROBING_JOB="night") for rank in (1, 0)]
    lines = probing("ps").expect(0).stdout.splitlines()
    assert lines[0].split() == ["PID", "JOB", "PROBED", "CPU", "MEMORY", "STATE", "COMMAND", "IN"]
    of_job = [line.split() for line in lines if "night" in line]
    assert [words[:4] for words in of_job] == [
        [str(ranks[1].pid), "night", "rank", "0"],
        [str(ranks[0].pid), "night", "rank", "1"],
    ]

    def busiest() -> float:
        rows = probing("ps", "--json").expect(0).json
        return max(row["cpu_percent"] for row in rows if row["pid"] in (ranks[0].pid, ranks[1].pid))

    assert wait_until(lambda: busiest() > 5, 30, "a busy process is seen to be one")


def test_a_script_names_its_process(probing: Cli, target: StartTarget) -> None:
    job = target("sleep")
    assert probing("-t", "target_sleep.py", "backtrace", "--json").expect(0).json["pid"] == job.pid
    other = target("sleep")
    answer = probing("-t", "target_sleep.py", "backtrace").expect(2)
    assert f"2 processes run target_sleep.py: {job.pid}, {other.pid}" in answer.stderr
    assert "probing ps" in probing("-t", "nosuch.py", "backtrace").expect(4).stderr
