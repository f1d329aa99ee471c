"""The job is the unit: names for people, ranks that say so late, commands for all ranks, what is not seen."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import harness
import pytest
from harness import Cli, Target, rows, wait_until

StartTarget = Callable[..., Target]

# Sets its rank when it runs already, as Ray Train and programs of multiprocessing do. What is loaded stands
# for torch: only of such programs the variables of today are looked at.
RANK = """
import ctypes, os, sys, time
ctypes.CDLL(sys.argv[1])
rank = sys.argv[2]
os.environ.update(RANK=rank, WORLD_SIZE='2', MASTER_ADDR='127.0.0.1', MASTER_PORT='29811')
os.write(1, ('ready %d' % os.getpid() + chr(10)).encode())
time.sleep(600)
"""

LAUNCH = """
import subprocess, sys
ranks = [subprocess.Popen([sys.executable, sys.argv[1], sys.argv[2], str(rank)]) for rank in (0, 1)]
for rank in ranks:
    rank.wait()
"""


def libm() -> Path:
    mapped = Path("/proc/self/maps").read_text().split()
    (path, *_) = [word for word in mapped if "/libm.so" in word or "/libm-" in word] or [""]
    if not path:
        pytest.skip("this Python has no libm.so to copy")
    return Path(path)


class Job:
    def __init__(self, folder: Path, script: str) -> None:
        torch = folder / "libtorch_cpu.so"
        shutil.copy(libm(), torch)
        (folder / script).write_text(LAUNCH)
        (folder / "rank.py").write_text(RANK)
        command = [sys.executable, str(folder / script), str(folder / "rank.py"), str(torch)]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env=harness.clean_environment(),
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.pids = sorted(int(self.process.stdout.readline().split()[1]) for _ in range(2))

    def end(self) -> None:
        for pid in [*self.pids, self.process.pid]:
            subprocess.run(["kill", "-9", str(pid)], check=False)
        self.process.wait()


@pytest.fixture
def late(tmp_path: Path) -> Iterator[Job]:
    one = Job(tmp_path, "train_late.py")
    yield one
    one.end()


def test_ranks_that_say_so_when_they_run_already_are_one_job_with_a_name_for_people(
    probing: Cli, late: Job
) -> None:
    sql = "SELECT rank, job FROM python.memory"
    unprobed = probing("-t", "job:train_late.py", "query", sql).expect(6)
    assert "2 ranks of job train_late.py-" in unprobed.stderr
    assert "have no probe, which writes python.memory: `probing -t job:train_late.py-" in unprobed.stderr
    entered = probing("-t", "job:train_late.py", "inject", "--json").expect(0).json
    assert [each["rank"] for each in entered] == [0, 1]
    assert sorted(each["pid"] for each in entered) == late.pids
    known = rows(
        probing, f"SELECT job, rank FROM probing.targets WHERE pid IN ({late.pids[0]}, {late.pids[1]})"
    )
    (name,) = {row["job"] for row in known}
    assert name.startswith("train_late.py-") and name.endswith(f"-{late.process.pid}")
    listed = probing("-t", f"job:{name}", "list", "--json").expect(0).json
    assert sorted(each["pid"] for each in listed) == late.pids
    found = wait_until(
        lambda: len(r := rows_of(probing, name, sql + " GROUP BY ALL ORDER BY ALL")) == 2 and r,
        20,
        "rows of both",
    )
    assert found == [{"rank": 0, "job": name}, {"rank": 1, "job": name}]
    assert probing("-t", f"job:{name}", "query", sql).expect(0).stderr == ""


def rows_of(probing: Cli, job: str, sql: str) -> list[dict]:
    return json.loads(probing("-t", f"job:{job}", "query", "-f", "json", sql).expect(0).stdout)


def test_commands_for_one_process_are_run_for_each_rank_of_a_job(probing: Cli, late: Job) -> None:
    job = "job:train_late.py"
    shown = probing("-t", job, "backtrace").expect(0).stdout
    assert [line for line in shown.splitlines() if line.startswith("rank ")] == [
        f"rank {rank} (process {pid})" for rank, pid in enumerate(ranks_in_order(probing, job))
    ]
    assert shown.count("rank.py") >= 2
    answers = probing("-t", job, "backtrace", "--json").expect(0).json
    assert [each["rank"] for each in answers] == [0, 1] and all("answer" in each for each in answers)
    probing("-t", job, "config", "probing.python.memory_interval=7").expect(4)  # nothing is probed
    probing("-t", job, "inject").expect(0)
    probing("-t", job, "config", "probing.python.memory_interval=7").expect(0)
    for pid in late.pids:
        assert probing("-t", pid, "config", "probing.python.memory_interval").expect(0).stdout == "7\n"
    probing("-t", job, "eject").expect(0)
    assert not any(harness.is_probed(pid) for pid in late.pids)


def ranks_in_order(probing: Cli, job: str) -> list[int]:
    return [each["pid"] for each in probing("-t", job, "backtrace", "--json").expect(0).json]


def test_two_jobs_of_one_script_are_two_jobs(probing: Cli, target: StartTarget) -> None:
    """Their rows never meet in an average, and a name that is of both is refused."""
    one = [target("sleep", RANK=str(rank), PROBING_JOB="twin-a") for rank in range(2)]
    two = [target("sleep", RANK=str(rank), PROBING_JOB="twin-b") for rank in range(2)]
    for job in ("twin-a", "twin-b"):
        probing("-t", f"job:{job}", "inject").expect(0)
    sql = (
        "SELECT job, list(pid ORDER BY rank) AS pids FROM global.system.process"
        " WHERE job LIKE 'twin-%' GROUP BY job ORDER BY job"
    )
    assert rows(probing, sql) == [
        {"job": "twin-a", "pids": [each.pid for each in one]},
        {"job": "twin-b", "pids": [each.pid for each in two]},
    ]
    assert rows_of(probing, "twin-b", "SELECT count(*) AS n FROM system.process") == [{"n": 2}]
    groups = probing("cluster", "backtrace").expect(0).stdout
    assert "job twin-a:\n" in groups and "job twin-b:\n" in groups
    assert (
        "there is no job twin"
        in probing("-t", "job:twin", "query", "SELECT 1 FROM python.gc").expect(4).stderr
    )


TITLED = """
import ctypes, os, sys, time
fields = open('/proc/self/stat').read().rsplit(')', 1)[1].split()
start, end = int(fields[45]), int(fields[46])
title = sys.argv[1].encode()
ctypes.memset(start, 0, end - start)
ctypes.memmove(start, title, min(len(title), end - start - 1))
print('ready', flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("title", "parallel"),
    [
        ("VLLM::Worker_TP1", {"tp": 1}),
        ("sglang::scheduler_DP0_TP3", {"dp": 0, "tp": 3}),
        ("ray::Actor.run", None),
    ],
)
def test_workers_of_serving_engines_are_called_by_their_titles(
    probing: Cli, tmp_path: Path, title: str, parallel: dict[str, int] | None
) -> None:
    script = tmp_path / "worker.py"
    script.write_text(TITLED)
    with subprocess.Popen(
        [sys.executable, str(script), title, "x" * 40],
        stdout=subprocess.PIPE,
        env=harness.clean_environment(),
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            assert title in probing("why", process.pid).expect(0).stdout
            probing("-t", process.pid, "inject").expect(0)
            [listed] = probing("-t", process.pid, "list", "--json").expect(0).json
            assert listed["command"] == title and listed["job"]["title"] == title
            [row] = rows(probing, "SELECT cmdline, parallel FROM probing.targets", process.pid)
            assert row["cmdline"] == title
            assert row["parallel"] == (json.dumps(parallel, separators=(",", ":")) if parallel else None)
        finally:
            process.kill()


def test_what_a_probe_writes_is_missing_where_there_is_none(probing: Cli, target: StartTarget) -> None:
    one = target("sleep")
    probing("-t", one.pid, "inject").expect(0)
    empty = probing("-t", one.pid, "query", "SELECT * FROM python.torch_steps").expect(0)
    assert f"process {one.pid} has not loaded torch, and python.torch_steps is about PyTorch" in empty.stderr


JAX = """
import ctypes, os, sys, time
ctypes.CDLL(sys.argv[1])
import probing
os.write(1, b'ready' + bytes([10]))
for step in range(100000):
    probing.step(step)
    time.sleep(0.02)
"""


def test_of_a_jax_program_it_is_said_what_is_seen_and_its_steps_are_spans(
    probing: Cli, tmp_path: Path
) -> None:
    library = tmp_path / "jaxlib/xla_extension.so"
    library.parent.mkdir()
    shutil.copy(libm(), library)
    script = tmp_path / "train_jax.py"
    script.write_text(JAX)
    environment = harness.clean_environment(
        PYTHONPATH=str(harness.ROOT / "python"), PROBING_LIBRARY=str(harness.BIN / "libprobing.so")
    )
    command = [sys.executable, str(script), str(library)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            empty = probing("-t", process.pid, "query", "SELECT * FROM python.torch_steps").expect(0)
            assert f"process {process.pid} runs JAX" in empty.stderr and "probing.step(n)" in empty.stderr
            sql = "SELECT step, duration_ms FROM python.spans WHERE name = 'step' ORDER BY step LIMIT 3"
            seen = wait_until(lambda: (r := rows(probing, sql, process.pid))[2:] and r, 20, "three steps")
            assert [row["step"] for row in seen] == [0, 1, 2]
            assert all(15 < row["duration_ms"] < 5000 for row in seen)
        finally:
            process.kill()


def test_variables_of_a_command_that_come_too_late_are_said(probing: Cli, target: StartTarget) -> None:
    one = target("sleep")
    probing("-t", one.pid, "inject").expect(0)
    wait_until(harness.daemon_socket, 20, "a probingd")
    late = probing("list", PROBING_STORE="clickhouse://127.0.0.1:1/x").expect(0)
    assert (
        "PROBING_STORE is not applied: probingd runs already, and probing.store is none there" in late.stderr
    )
    assert "`probing config probing.store=$PROBING_STORE`" in late.stderr
    assert probing("list").expect(0).stderr == ""


def test_a_job_brings_its_peers_to_a_probingd_that_runs_already(probing: Cli, target: StartTarget) -> None:
    probing("-t", target("sleep").pid, "inject").expect(0)
    assert probing("config", "probing.cluster.peers").expect(0).stdout == "none\n"
    probing("-t", target("sleep", PROBING_CLUSTER_PEERS="127.0.0.9:3344").pid, "inject").expect(0)
    try:
        peers = "127.0.0.9:3344\n"
        wait_until(lambda: probing("config", "probing.cluster.peers").stdout == peers, 20, "its peers")
    finally:
        probing("config", "probing.cluster.peers=none").expect(0)


def test_a_shell_without_probing_is_told_from_a_greeting(probing: Cli, tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(
        "#!/bin/sh\necho 'Warning: welcome to node1' >&2\necho 'sh: 1: probing: not found' >&2\nexit 127\n"
    )
    ssh.chmod(0o755)
    answer = probing("inject", "--job", "--hosts", "node1", PROBING_SSH=str(ssh)).expect(6)
    assert "probing: node1: probing is not installed there, or not on the PATH" in answer.stderr
    assert "sh: 1: probing: not found" in answer.stderr
