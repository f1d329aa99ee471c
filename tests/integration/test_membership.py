"""Hosts come, go and are started anew while they are asked: the epoch says so, and no row counts twice."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator

import harness
import pytest
from harness import Cli, wait_until
from job_hosts import STEPS, TOKEN, FakePeer, Host, frame, hosts, meet, node_says, receipt, with_package
from other_machine import OtherMachine, other_machine

COUNT = "SELECT count(*) AS n FROM global.python.torch_steps"
STEPS_OF = "SELECT step FROM global.python.torch_steps"


@pytest.fixture
def pair(public_probing: Cli) -> Iterator[list[Host]]:
    with hosts(public_probing, 2) as started:
        yield started


@pytest.fixture
def single(public_probing: Cli) -> Iterator[Host]:
    with hosts(public_probing, 1) as started:
        yield started[0]


def test_a_host_that_is_started_anew_changes_the_epoch(pair: list[Host]) -> None:
    before = pair[0].epoch()
    assert pair[0].epoch() == before, "it stays when nothing happens"
    pair[1].restart()
    wait_until(lambda: pair[0].epoch() > before, 20, "another epoch")
    wait_until(lambda: pair[0].rows(COUNT, code=0) == [{"n": 4 * STEPS}], 20, "its ranks are there again")


def test_a_daemon_that_is_killed_while_it_is_asked_costs_its_rows_only(pair: list[Host]) -> None:
    """Again and again: every answer is the whole or one that says what is missing."""
    answers = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            answers.append(pair[0]("query", "-f", "csv", COUNT))

    asker = threading.Thread(target=ask)
    asker.start()
    try:
        for _ in range(3):
            so_far = len(answers)
            wait_until(lambda: len(answers) > so_far + 1, 20, "answers")  # noqa: B023
            pair[1].restart()
    finally:
        done.set()
        asker.join()
    for answer in answers:
        number = int(answer.stdout.split()[-1])
        assert number in (2 * STEPS, 3 * STEPS, 4 * STEPS), answer.stderr
        is_whole = number == 4 * STEPS
        is_said = answer.code == 6 or "started anew" in answer.stderr
        assert is_whole or is_said, f"{number} rows, and nobody says that some are missing: {answer}"
    assert any(int(answer.stdout.split()[-1]) == 4 * STEPS for answer in answers), "some are whole"


def test_restarted_between_two_questions(single: Host) -> None:
    """It said how many rows there are, and somebody else sends them: that is said."""

    def answer_all(request: str, body: bytes) -> tuple[bytes, dict[str, str]]:
        if "/node" in request:
            return node_says(instance="first"), {}
        counts = b"count(*)" in body
        return frame([3], [0], [0]) if counts else frame([1, 2, 3]), {
            "Probing-Instance": "first" if counts else "second"
        }

    with FakePeer(answer_all) as fake:
        meet([single], fake.address)
        answer = single("query", "-f", "csv", STEPS_OF).expect(0)
        assert len(answer.stdout.split()) == 1 + 2 * STEPS + 3
        assert "the hosts changed meanwhile (epoch " in answer.stderr
        assert f"{fake.address}: its probingd was started anew" in answer.stderr
        got = receipt(single, STEPS_OF)
        assert got["restarted"] == [fake.address] and got["epoch"] > got["epoch_before"]


def test_two_addresses_of_one_host_are_one(pair: list[Host]) -> None:
    port = pair[1].address.split(":")[1]
    meet(pair, f"localhost:{port}", f"127.0.0.1:{port}")
    assert pair[0].rows(COUNT) == [{"n": 4 * STEPS}]
    assert len(pair[0].nodes()) == 2


def test_two_addresses_that_turn_out_to_be_one_host(single: Host) -> None:
    """They were two when they were met, and are one when they are asked."""

    def fake(name: str) -> FakePeer:
        def answer_all(request: str, body: bytes) -> tuple[bytes, dict[str, str]]:
            if "/node" in request:
                return node_says(instance=name), {}
            rows = frame([3], [0], [0]) if b"count(*)" in body else frame([1, 2, 3])
            return rows, {"Probing-Instance": "both"}

        return FakePeer(answer_all)

    with fake("a") as first, fake("b") as second:
        meet([single], first.address, second.address)
        answer = single("query", "-f", "csv", STEPS_OF).expect(0)
        assert len(answer.stdout.split()) == 1 + 2 * STEPS + 3, "its rows are there once"


def test_another_version_is_said_and_costs_that_hosts_rows_only(pair: list[Host]) -> None:
    def answer_all(request: str, _: bytes) -> tuple[bytes, dict[str, str]]:
        return (node_says(version="99.1") if "/node" in request else b"rows of tomorrow"), {}

    with FakePeer(answer_all) as fake:
        meet(pair, fake.address)
        [row] = [row for row in pair[0].nodes() if row["node"] == fake.address]
        assert (row["state"], row["version"]) == ("up", "99.1")
        assert row["problem"].startswith("is of version 99.1, this is ")
        answer = pair[0]("query", "-f", "json", COUNT).expect(6)
        assert json.loads(answer.stdout) == [{"n": 4 * STEPS}]
        assert (
            "2 of 3 hosts answered" in answer.stderr and "(it is of version 99.1, this is " in answer.stderr
        )


def test_a_clock_that_jumps_is_shown_and_harms_nothing(public_probing: Cli) -> None:
    """The clock of one host's probingd, by a library in front of it that reads the jump from a file."""
    with_package(public_probing)
    library, jump = public_probing.bin / "jump.so", public_probing.bin / "jump"
    source = harness.ROOT / "tests/targets/clock_jump.c"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", f'-DFILE_NAME="{jump}"', "-o", library, source, "-ldl"], check=True
    )
    library.chmod(0o755)
    jump.write_text("0")
    jump.chmod(0o644)
    started = []
    try:
        started.append(Host(public_probing, 0))
        started.append(Host(public_probing, 1))
        harness.stop_process(started[1].user.daemon())
        daemon = [
            *started[1].user.prefix,
            "env",
            f"LD_PRELOAD={library}",
            str(public_probing.bin / "probingd"),
        ]
        variables = {"PROBING_TOKEN": TOKEN, "XDG_CONFIG_HOME": str(started[1].settings)}
        subprocess.Popen(daemon, env=harness.clean_environment(**variables), stderr=subprocess.DEVNULL)
        wait_until((started[1].user.folder / "probingd.sock").exists, 20, "it listens")
        started[1].listen()
        meet(started)
        assert started[0].rows(COUNT) == [{"n": 4 * STEPS}]
        epoch = started[0].epoch()
        for seconds in (3600, -3600, 0):
            jump.write_text(str(seconds))

            def offset_ms() -> float:
                return started[0].nodes()[1]["clock_offset_ms"]

            wait_until(lambda: abs(offset_ms() - seconds * 1000) < 1000, 20, "it is seen")  # noqa: B023
            assert started[0].rows(COUNT) == started[1].rows(COUNT) == [{"n": 4 * STEPS}]
            # Times are those of the host that wrote them: that some cannot be compared is said.
            side = {3600: "ahead of", -3600: "behind"}.get(seconds)
            said = rf"{started[1].address}: its clock is (3600|3599)\.\d s {side} ours"
            for words in (("query", COUNT), ("diagnose", "--class", "straggler")):
                stderr = started[0](*words).expect(0).stderr
                assert bool(re.search(said, stderr)) == (side is not None), stderr
        assert started[0].epoch() == epoch, "nobody came or went"
    finally:
        for host in started:
            host.user.leave()


@pytest.fixture
def cabled(public_probing: Cli) -> Iterator[tuple[OtherMachine, list[Host]]]:
    """Two hosts, the second on a machine of its own, and the cable between them."""
    with_package(public_probing)
    started: list[Host] = []
    with other_machine() as machine:
        try:
            started.append(Host(public_probing, 0, place=machine.here))
            started.append(Host(public_probing, 1, place=machine.there, prefix=tuple(machine.prefix)))
            meet(started)
            yield machine, started
        finally:
            for host in started:
                host.user.leave()


def test_a_cable_that_is_pulled(cabled: tuple[OtherMachine, list[Host]]) -> None:
    """And put back: who was cut off costs the deadline, and is there again by itself."""
    machine, (first, _) = cabled
    assert first.rows(COUNT) == [{"n": 4 * STEPS}]
    epoch = first.epoch()
    first.config(timeout=2)
    machine.set_cable("down")
    began = time.monotonic()
    answer = first("query", "-f", "json", COUNT).expect(6)
    assert time.monotonic() - began < 20, "it is not waited for"
    assert json.loads(answer.stdout) == [{"n": 2 * STEPS}]
    assert "1 of 2 hosts answered" in answer.stderr
    assert first.epoch() > epoch
    machine.set_cable("up")
    first.config(timeout=10)

    def all_again() -> bool:
        return first("query", "-f", "csv", COUNT).stdout.split()[-1] == str(4 * STEPS)

    wait_until(all_again, 30, "both are there again")


def test_a_slow_link_costs_the_deadline_at_most(cabled: tuple[OtherMachine, list[Host]]) -> None:
    """What is small comes through it; what would take longer than the deadline is missing, and is said."""
    machine, (first, second) = cabled
    second.start_rank(second.code.replace(f"range({STEPS})", "range(5000)"), 9)
    everything = {"n": 4 * STEPS + 5000}
    wait_until(lambda: first.rows(COUNT, code=0) == [everything], 20, "all rows")
    machine.slow_down("64kbit")
    assert first.rows(COUNT) == [everything]
    first.config(timeout=2)
    began = time.monotonic()
    answer = first("query", "-f", "json", "SELECT * FROM global.python.torch_steps").expect(6)
    assert time.monotonic() - began < 20, "it is not waited for"
    assert len(json.loads(answer.stdout)) == 2 * STEPS
    assert f"{second.address}: did not answer in time" in answer.stderr


def test_a_rank_that_is_started_anew_has_both_lives(pair: list[Host]) -> None:
    """Its number is the same, its process is not; the rows of the first are kept for a while."""
    host = pair[1]
    first = host.user.targets[0]
    first.kill()
    first.wait()
    second = host.start_rank(host.code, host.ranks[0], TORCHELASTIC_RESTART_COUNT="1")
    sql = f"SELECT pid, count(*) AS n FROM global.python.torch_steps WHERE rank = {host.ranks[0]} GROUP BY 1"

    def lives() -> dict[int, int]:
        return {row["pid"]: row["n"] for row in pair[0].rows(sql)}

    wait_until(lambda: lives() == {first.pid: STEPS, second.pid: STEPS}, 20, "both")
    restarts = "SELECT DISTINCT pid, restart FROM global.probing.targets WHERE restart IS NOT NULL"
    assert pair[0].rows(restarts) == [{"pid": second.pid, "restart": 1}]
