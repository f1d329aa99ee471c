"""Jobs of several ranks on one host: who is who, all of them at once, stacks put together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Cli, Target, is_probed, rows, wait_until
from ranks import Job

StartTarget = Callable[..., Target]
StartRanks = Callable[..., list[Target]]


@pytest.fixture
def ranks(target: StartTarget, request: pytest.FixtureRequest) -> StartRanks:
    """Processes that nobody has probed, with the variables of torchrun."""
    name = f"{request.node.name}-{os.getpid()}"

    def start(world: int, kind: str = "sleep", **more: str) -> list[Target]:
        return [
            target(kind, RANK=str(rank), WORLD_SIZE=str(world), TORCHELASTIC_RUN_ID=name, **more)
            for rank in range(world)
        ]

    start.job = name  # type: ignore[attr-defined]
    return start


@pytest.fixture
def job(target: StartTarget, tmp_path: Path) -> Callable[..., Job]:
    return lambda world=3, trouble="none", who=-1: Job(target, tmp_path, world, trouble, who)


def test_all_ranks_of_a_job_are_injected_at_once(probing: Cli, ranks: StartRanks) -> None:
    started = ranks(4)
    entered = probing("-t", f"job:{ranks.job}", "inject", "--json").expect(0).json
    assert [(each["rank"], each["pid"]) for each in entered] == [
        (rank, one.pid) for rank, one in enumerate(started)
    ]
    assert all(is_probed(one.pid) for one in started)
    again = probing("-t", f"job:{ranks.job}", "inject").expect(0).stdout.splitlines()
    assert [line.split(":")[0] for line in again] == [f"rank {rank}" for rank in range(4)]
    assert all("probed already" in line for line in again)
    for one in started:
        one.expect_unharmed()


def test_a_rank_that_cannot_be_entered_makes_the_answer_partial(probing: Cli, ranks: StartRanks) -> None:
    started = ranks(2) + ranks(1, PROBING_DISABLE="1")
    answer = probing("-t", f"job:{ranks.job}", "inject").expect(6)
    assert answer.stdout.count("injected") == 2
    assert str(started[2].pid) in answer.stderr and "PROBING_DISABLE" in answer.stderr
    assert not is_probed(started[2].pid)


def test_what_launchers_say_is_known_of_every_target(probing: Cli, target: StartTarget) -> None:
    slurm = {"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_NODEID": "1"}
    slurm |= {"SLURM_JOB_ID": "4711", "SLURM_RESTART_COUNT": "2", "TP_RANK": "1", "DP_RANK": "0"}
    one = target("sleep", **slurm)
    probing("-t", one.pid, "inject").expect(0)
    [row] = rows(probing, "SELECT * FROM probing.targets", one.pid)
    expected = {"rank": 3, "world_size": 8, "local_rank": 1, "node_rank": 1, "restart": 2, "job": "4711"}
    assert {key: row[key] for key in expected} == expected
    assert (row["launcher"], row["job_role"]) == ("slurm", "rank")
    assert json.loads(row["parallel"]) == {"dp": 0, "tp": 1}
    assert json.loads(row["variables"]) == slurm
    [listed] = probing("-t", one.pid, "list", "--json").expect(0).json
    assert listed["job"]["rank"] == 3 and listed["job"]["variables"] == slurm


def test_launchers_and_workers_are_no_ranks(probing: Cli, tmp_path: Path) -> None:
    """torchrun under Slurm has a rank's variables, and so has a worker of a DataLoader."""
    start = (
        "import os, subprocess, sys\nos.environ['RANK'] = '5'\nsubprocess.run([sys.executable, '-c', {!r}])"
    )
    worker = "import time\nprint('ready', flush=True)\ntime.sleep(600)\n"
    rank = start.format(start.format(worker))
    launcher = tmp_path / "torchrun"
    launcher.write_text(rank)
    name = f"slurm-{os.getpid()}"
    environment = os.environ | {"SLURM_PROCID": "0", "SLURM_JOB_ID": name}
    shell = subprocess.Popen(
        ["sh", "-c", f"{sys.executable} {launcher} --rdzv-endpoint=node7:29400 x.py; true"],
        env=environment,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert shell.stdout is not None and shell.stdout.readline() == b"ready\n"
        entered = probing("-t", f"job:{name}", "inject", "--timeout", 20, "--json").expect(0).json
        assert [each["rank"] for each in entered] == [5], "one rank: not the shell, torchrun or the worker"
        sql = f"SELECT rank, launcher, variables FROM probing.targets WHERE job = '{name}'"
        [row] = rows(probing, sql)
        assert json.loads(row.pop("variables"))["PET_RDZV_ENDPOINT"] == "node7:29400", "which torchrun knows"
        assert row == {"rank": 5, "launcher": "torchrun"}
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


def test_list_shows_a_job_as_a_tree(probing: Cli, ranks: StartRanks) -> None:
    started = ranks(2)
    probing("-t", f"job:{ranks.job}", "inject").expect(0)
    lines = probing("list").expect(0).stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(f"{ranks.job}: 2 of 2 ranks"))
    assert lines[at + 1].split()[:4] == ["├", "rank", "0", str(started[0].pid)]
    assert lines[at + 2].split()[:4] == ["└", "rank", "1", str(started[1].pid)]


def test_a_rank_is_a_target(probing: Cli, target: StartTarget) -> None:
    number = 100_000 + os.getpid()  # nobody else has it
    one = target("sleep", RANK=str(number))
    probing("-t", f"rank:{number}", "inject").expect(0)
    assert probing(f"rank:{number}", "eval", "import os; os.getpid()").expect(0).stdout.strip() == str(
        one.pid
    )
    missing = probing("-t", "rank:99999999", "status").expect(4)
    assert "no rank 99999999 on this host" in missing.stderr and str(number) in missing.stderr
    probing("-t", "job:nobody-has-this", "inject").expect(4)
    assert "rank:0" in probing("-t", "job", "status").expect(2).stderr


def test_one_question_to_all_ranks_of_the_host(probing: Cli, job: Callable[..., Job]) -> None:
    one = job(3)
    one.await_steps(10)
    mine = f"pid IN ({', '.join(map(str, one.pids))})"
    sql = (
        f"SELECT rank, avg(duration) AS mean FROM global.python.torch_steps WHERE {mine}"
        " GROUP BY rank ORDER BY rank"
    )
    found = wait_until(lambda: len(r := rows(probing, sql)) == 3 and r, 20, "rows of all ranks")
    assert [row["rank"] for row in found] == [0, 1, 2] and all(row["mean"] > 0 for row in found)
    # From within one rank's view, too, and with a join across ranks.
    assert [row["rank"] for row in rows(probing, sql, one.pids[1])] == [0, 1, 2]
    slowest = rows(
        probing,
        "SELECT a.rank AS a, b.rank AS b, count(*) AS steps FROM global.python.torch_steps AS a"
        f" JOIN global.python.torch_steps AS b USING (step) WHERE a.{mine} AND b.{mine} AND a.rank < b.rank"
        " GROUP BY ALL ORDER BY ALL",
    )
    assert [(row["a"], row["b"]) for row in slowest] == [(0, 1), (0, 2), (1, 2)]
    assert min(row["steps"] for row in slowest) >= 5


def test_dead_ranks_are_part_of_the_answer(probing: Cli, job: Callable[..., Job]) -> None:
    one = job(2)
    one.await_steps(10)
    sql = f"SELECT rank, count(*) AS n FROM global.python.torch_steps WHERE pid = {one.pids[1]} GROUP BY rank"
    wait_until(lambda: rows(probing, sql), 20, "rows")
    one.ranks[1].kill()
    state = f"SELECT state FROM global.probing.targets WHERE pid = {one.pids[1]}"
    wait_until(lambda: [row["state"] for row in rows(probing, state)] == ["ended"], 20, "its end is seen")
    [row] = rows(probing, sql)
    assert row["rank"] == 1 and row["n"] >= 10


def test_ranks_with_the_same_stack_are_put_together(probing: Cli, job: Callable[..., Job]) -> None:
    one = job(4, "hang", 2)
    one.await_steps(25)

    def groups() -> list[dict]:
        found = probing("cluster", "backtrace", "--json").expect(0).json["groups"]
        return [group for group in found if set(group["pids"]) & set(one.pids)]

    def expected(found: list[dict]) -> bool:
        known = [(group["ranks"], group["innermost"]) for group in found]
        return known == [([0, 1, 3], "all_reduce"), ([2], "wait_for_ever")]

    two = wait_until(lambda: expected(g := groups()) and g, 20, "three wait, one hangs")
    assert two[1]["stack"].splitlines()[0].startswith("wait_for_ever (")
    text = probing("cluster", "backtrace").expect(0).stdout
    assert "3 ranks (0, 1, 3) in all_reduce\n" in text
    assert "1 rank (2) in wait_for_ever\n" in text
    assert "nodes" in probing("cluster", "ranks").expect(2).stderr
    [node] = probing("cluster", "nodes", "--json").expect(0).json
    assert node["state"] == "up" and node["ranks"] >= 4
