"""NCCL's RAS port: nccl.ras_communicators, nccl.ras_ranks and the rule that reads them, on a stand-in
(tests/targets/standin/nccl_ras.py) that speaks NCCL's protocol. No machine of ours has GPUs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import harness
import pytest
from harness import Cli, Target, rows, wait_until
from users import User, free_port

StartTarget = Callable[..., Target]
STAND_IN = harness.TARGETS / "standin/nccl_ras.py"
RANKS = (
    "SELECT comm_rank, status, op, launched, behind, process, is_local FROM nccl.ras_ranks ORDER BY comm_rank"
)


class Job:
    """Four ranks with a probe, and the port that NCCL would open for them."""

    def __init__(self, probing: Cli, target: StartTarget, port: int, world: int = 4) -> None:
        self.port = port
        self.ranks = [
            target(
                "sleep",
                RANK=str(rank),
                WORLD_SIZE=str(world),
                LOCAL_RANK=str(rank),
                TORCHELASTIC_RUN_ID=f"ras-{port}",
                NCCL_RAS_ADDR=f"127.0.0.1:{port}",
            )
            for rank in range(world)
        ]
        for each in self.ranks:
            probing("-t", each.pid, "inject").expect(0)

    @property
    def pids(self) -> list[int]:
        return [rank.pid for rank in self.ranks]


@pytest.fixture
def serve() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started = []

    def start(
        port: int, kind: str, version: str = "2.28.3", pids: list[int] | None = None, prefix: tuple = ()
    ) -> subprocess.Popen[bytes]:
        environment = harness.clean_environment()
        if pids:
            environment["PROBING_RAS_PIDS"] = ",".join(map(str, pids))
        command = [
            *prefix,
            sys.executable if not prefix else "/usr/bin/python3",
            "-",
            str(port),
            kind,
            version,
        ]
        started.append(
            subprocess.Popen(command, stdin=STAND_IN.open("rb"), stdout=subprocess.PIPE, env=environment)
        )
        assert started[-1].stdout.readline() == b"ready\n"
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


@pytest.fixture
def job(probing: Cli, target: StartTarget) -> Job:
    return Job(probing, target, free_port())


@pytest.fixture
def one(probing: Cli, target: StartTarget) -> Job:
    return Job(probing, target, free_port(), world=1)


def findings(probing: Cli, job: Job) -> list[dict]:
    answer = probing("diagnose", "--json", "--class", "collective_hang", "--patience", "0.3").json
    assert not [each for each in answer["problems"] if "nccl_ras" in each], answer
    return [each for each in answer["findings"] if set(each["pids"]) & set(job.pids)]


@pytest.mark.parametrize("version", ["2.28.3", "2.27"])
def test_a_healthy_job_has_its_communicators_and_no_finding(
    probing: Cli, job: Job, serve: Callable, version: str
) -> None:
    serve(job.port, "healthy", version, job.pids)
    sql = "SELECT size, status, errors, address FROM nccl.ras_communicators"
    [communicator] = rows(probing, sql, job.pids[0])
    assert communicator == {
        "size": 4,
        "status": "RUNNING",
        "errors": "OK",
        "address": f"127.0.0.1:{job.port}",
    }
    ranks = rows(probing, RANKS, job.pids[0])
    if version == "2.28.3":  # the text names nobody when all is well
        assert [each["process"] for each in ranks] == job.pids
        assert {(each["status"], each["behind"], each["is_local"]) for each in ranks} == {
            ("RUNNING", 0, True)
        }
    asked = f"SELECT count(*) AS n FROM global.nccl.ras_communicators WHERE address LIKE '%:{job.port}'"
    assert rows(probing, asked) == [{"n": 1}], "a port that four processes share is asked once"
    for _ in range(3):
        assert findings(probing, job) == []
        time.sleep(0.2)  # longer than the patience, all in all


@pytest.mark.parametrize("version", ["2.28.3", "2.27"])
def test_a_rank_that_is_behind_is_named(probing: Cli, job: Job, serve: Callable, version: str) -> None:
    serve(job.port, "mismatch", version, job.pids)
    sql = "SELECT comm_rank, op, launched, behind FROM nccl.ras_ranks WHERE behind > 0"
    assert rows(probing, sql, job.pids[0]) == [
        {"comm_rank": 2, "op": "AllReduce", "launched": 65, "behind": 1}
    ]
    # Behind for a moment is nothing: the table has to be read for longer than the patience.
    [finding] = wait_until(lambda: findings(probing, job), 30, "the rank is named")
    assert finding["ranks"] == [2] and finding["severity"] == "error" and finding["rule"] == "nccl_ras"
    assert "rank 2 has launched AllReduce 65 times, 1 less than others" in finding["evidence"]
    assert finding["next"] == f"probing -t {job.pids[2]} backtrace"


@pytest.mark.parametrize("version", ["2.28.3", "2.27"])
@pytest.mark.parametrize(
    ("kind", "status", "severity"), [("missing", "UNRESPONSIVE", "warning"), ("dead", "DEAD", "error")]
)
def test_a_rank_that_nccl_misses_is_named(
    probing: Cli, job: Job, serve: Callable, version: str, kind: str, status: str, severity: str
) -> None:
    serve(job.port, kind, version, job.pids)
    sql = f"SELECT comm_rank, process FROM nccl.ras_ranks WHERE status = '{status}'"
    assert rows(probing, sql, job.pids[0]) == [{"comm_rank": 2, "process": job.pids[2]}]
    errors = rows(probing, "SELECT errors FROM nccl.ras_communicators", job.pids[0])
    assert errors == [{"errors": "INCOMPLETE"}]
    [finding] = findings(probing, job)
    assert finding["ranks"] == [2] and finding["severity"] == severity


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("garbage", "no status of NCCL"),
        ("wrong_type", "nccl_version is no short text"),
        ("truncated", "no JSON"),
        ("wrong_count", "ranks_count is not the number of ranks"),
        ("endless", "more than 16 MB"),
        ("silent", "did not answer within 5 s"),
    ],
)
def test_an_answer_that_lies_gives_a_clear_error(
    probing: Cli, one: Job, serve: Callable, kind: str, why: str
) -> None:
    serve(one.port, kind, pids=one.pids)
    answer = probing("-t", one.pids[0], "query", "SELECT * FROM nccl.ras_ranks")
    assert answer.code == 1 and answer.stdout == ""
    assert f"NCCL's RAS port at 127.0.0.1:{one.port}" in answer.stderr and why in answer.stderr
    problems = probing("diagnose", "--json", "--class", "collective_hang").json["problems"]
    assert [each for each in problems if "nccl_ras" in each and why in each], problems


def test_without_a_port_there_are_no_rows_and_a_reason(probing: Cli, one: Job) -> None:
    answer = probing("-t", one.pids[0], "query", "-f", "json", "SELECT * FROM nccl.ras_ranks").expect(0)
    assert answer.json == [] and f"no NCCL listens at 127.0.0.1:{one.port}" in answer.stderr
    assert findings(probing, one) == []


def test_a_process_that_names_no_address_is_asked_at_nccl_s_own(
    probing: Cli, target: StartTarget, serve: Callable
) -> None:
    plain = target("sleep")
    probing("-t", plain.pid, "inject").expect(0)
    serve(28028, "healthy")
    sql = "SELECT address, size FROM nccl.ras_communicators"
    assert rows(probing, sql, plain.pid) == [{"address": "localhost:28028", "size": 4}]


def test_an_address_of_another_machine_is_not_asked(probing: Cli, target: StartTarget) -> None:
    """Row "NCCL_RAS_ADDR of a process" of docs/guides/security.md."""
    for address, why in (
        ("192.0.2.1:28028", "it is no address of this host"),
        ("ras.example:28028", "no IP address"),
    ):
        one = target("sleep", NCCL_RAS_ADDR=address)
        probing("-t", one.pid, "inject").expect(0)
        answer = probing("-t", one.pid, "query", "-f", "json", "SELECT * FROM nccl.ras_ranks").expect(0)
        assert why in answer.stderr and answer.json == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be several users")
def test_a_port_of_another_user_is_not_asked(probing: Cli, one: Job, serve: Callable, user: User) -> None:
    """Row "who listens at a RAS port" of docs/guides/security.md."""
    serve(one.port, "healthy", prefix=tuple(user.prefix))
    answer = probing("-t", one.pids[0], "query", "-f", "json", "SELECT * FROM nccl.ras_ranks").expect(0)
    assert answer.json == [] and "a process of another user listens there" in answer.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be several users")
def test_a_process_of_another_user_leads_nowhere(probing: Cli, public_probing: Cli, user: User) -> None:
    """Row "NCCL_RAS_ADDR of a process" of docs/guides/security.md."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        came = []
        threading.Thread(target=lambda: came.append(server.accept()), daemon=True).start()
        process = user.target(NCCL_RAS_ADDR=f"127.0.0.1:{server.getsockname()[1]}")
        user("-t", process.pid, "inject").expect(0)
        answer = public_probing(
            "-t", process.pid, "query", "-f", "json", "SELECT * FROM nccl.ras_ranks"
        ).expect(0)
        assert answer.json == [] and came == []
