"""libprobing-nccl.so, the profiler plugin for NCCL, called as NCCL calls it by a program that plays NCCL
(tests/targets/standin/nccl_host.cc). No machine of ours has GPUs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import harness
import pytest
from harness import Cli, rows

PLUGIN = harness.BIN / "libprobing-nccl.so"
STAND_INS = harness.TARGETS / "standin"
THREADS, ROUNDS = 3, 20
VERSIONS = [4, 5, 6]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    folder = tmp_path_factory.mktemp("nccl")

    def make(name: str, *flags: str) -> Path:
        output = folder / "-".join([name, *flags])
        if not output.exists():
            command = ["g++", "-std=c++17", "-O1", "-pthread", *flags]
            command += ["-o", str(output), str(STAND_INS / f"{name}.cc"), "-ldl"]
            subprocess.run(command, check=True)
        return output

    return make


class Host:
    def __init__(
        self, program: Path, version: int, *more: str, rounds: int = ROUNDS, **environment: str
    ) -> None:
        command = [program, PLUGIN, version, THREADS, rounds, *more]
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=harness.clean_environment(**environment),
        )
        assert self.process.stdout is not None and self.process.stdin is not None
        assert self.process.stdout.readline() == b"ready\n"

    def play(self, probing: Cli | None = None) -> dict:
        """With `probing`, after it was injected."""
        if probing is not None:
            probing("-t", self.pid, "inject", "--no-python").expect(0)
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    @property
    def pid(self) -> int:
        return self.process.pid

    def end(self) -> None:
        out, err = self.process.communicate(b"\n", timeout=30)
        assert (self.process.returncode, out, err) == (0, b"end\n", b"")


@pytest.fixture
def host(build: Callable[..., Path]) -> Iterator[Callable[..., Host]]:
    started: list[Host] = []

    def start(version: int, *more: str, **environment: str) -> Host:
        started.append(Host(build("nccl_host"), version, *more, **environment))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.communicate()


@pytest.mark.parametrize("version", VERSIONS)
def test_operations_and_their_network_parts_are_rows(
    probing: Cli, host: Callable[..., Host], version: int
) -> None:
    one = host(version)
    one.play(probing)
    sql = """SELECT comm_name, comm_rank, comm_size, count, datatype, algorithm, protocol, channels,
             is_complete, lost, count(DISTINCT communicator) AS communicators, count(*) AS n,
             min(seq) AS first, max(seq) AS last,
             max(gpu_ms) AS gpu_ms, bool_and(duration_ms >= enqueue_ms AND enqueue_ms >= 0) AS in_order,
             bool_and(abs(epoch(timestamp) - epoch(started)) < 60) AS now
             FROM nccl.collectives WHERE op = 'AllReduce' GROUP BY ALL"""
    assert rows(probing, sql, one.pid) == [
        {
            "comm_name": "dp",
            "comm_rank": 1,
            "comm_size": 4,
            "count": 1048576,
            "datatype": "ncclFloat32",
            "algorithm": "RING",
            "protocol": "SIMPLE",
            "channels": 2,
            "is_complete": True,
            "lost": 0,
            "communicators": THREADS,
            "n": THREADS * ROUNDS,
            "first": 0,
            "last": ROUNDS - 1,
            "gpu_ms": 0.005001,
            "in_order": True,
            "now": True,
        }
    ]
    sql = """SELECT direction, peer, channel, steps, bytes, op, count(*) AS n,
             max(peer_wait_ms) >= 8 AS peer_waits, max(net_wait_ms) >= 8 AS net_waits
             FROM nccl.network GROUP BY ALL ORDER BY direction, channel"""
    expected = [
        {"direction": direction, "peer": peer, "channel": channel, "steps": 4, "bytes": 4 * 524288}
        | {"op": "AllReduce", "n": THREADS * ROUNDS, "peer_waits": peer == 1, "net_waits": peer == 3}
        for direction, peer in (("recv", 3), ("send", 1))
        for channel in (0, 1)
    ]
    assert rows(probing, sql, one.pid) == expected
    if version == 6:
        sql = "SELECT seq, algorithm, count(*) AS n FROM nccl.collectives WHERE op = 'AllGather' GROUP BY ALL"
        assert rows(probing, sql, one.pid) == [{"seq": 7, "algorithm": "CE", "n": THREADS}]
    one.end()


def test_parts_that_begin_after_their_operation_was_stopped_belong_to_it(
    probing: Cli, host: Callable[..., Host]
) -> None:
    one = host(5, "late")
    one.play(probing)
    sql = (
        "SELECT count(*) AS n, bool_and(is_complete) AS complete FROM nccl.collectives WHERE op = 'AllReduce'"
    )
    assert rows(probing, sql, one.pid) == [{"n": THREADS * ROUNDS, "complete": True}]
    assert rows(probing, "SELECT count(*) AS n FROM nccl.network WHERE op = 'AllReduce'", one.pid) == [
        {"n": 4 * THREADS * ROUNDS}
    ]
    one.end()


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_probe_nothing_is_asked_of_nccl(host: Callable[..., Host], version: int) -> None:
    one = host(version)
    assert one.play() == {"mask": 0, "started": 0, "handles": 0}
    one.end()


def test_of_a_probe_that_does_not_run_nothing_is_asked_of_nccl(host: Callable[..., Host]) -> None:
    one = host(6, LD_PRELOAD=str(harness.BIN / "libprobing.so"))  # it starts in Python programs only
    assert one.play()["mask"] == 0
    one.end()


def test_a_probe_that_leaves_takes_no_rows_and_the_job_goes_on(
    probing: Cli, host: Callable[..., Host]
) -> None:
    one = host(6)
    assert one.play(probing)["handles"] > 0
    probing("-t", one.pid, "eject").expect(0)
    one.end()


@pytest.mark.parametrize(("version", "of_next"), [(4, 4), (5, 5), (5, 4), (6, 6), (6, 5), (6, 4)])
@pytest.mark.parametrize("probed", [True, False])
def test_a_plugin_behind_ours_gets_its_events(
    probing: Cli,
    host: Callable[..., Host],
    build: Callable[..., Path],
    tmp_path: Path,
    version: int,
    of_next: int,
    probed: bool,
) -> None:
    report = tmp_path / "report"
    next_plugin = build("nccl_next", "-shared", "-fPIC", f"-DVERSION={of_next}")
    environment = {"PROBING_NCCL_NEXT": str(next_plugin), "NCCL_NEXT_REPORT": str(report)}
    one = host(version, **environment)
    one.play(probing if probed else None)
    one.end()
    saw = json.loads(report.read_text())
    operations = THREADS * ROUNDS + 1  # the last one is never stopped
    assert saw["coll"] == operations and saw["proxy_op"] == 4 * (operations - 1)
    assert saw["step"] == 4 * saw["proxy_op"] and saw["group"] == operations - 1
    assert saw["records"] == saw["proxy_op"] + 3 * saw["step"]
    assert saw["wrong"] == 0
    assert saw["orphans"] <= 1, "only the one that has no group"


def test_a_plugin_that_cannot_be_loaded_costs_nothing(probing: Cli, host: Callable[..., Host]) -> None:
    one = host(5, PROBING_NCCL_NEXT="/nowhere/libnone.so")
    one.play(probing)
    assert rows(probing, "SELECT count(*) AS n FROM nccl.network", one.pid) == [{"n": 4 * THREADS * ROUNDS}]
    one.end()
