"""`probing why` names the one that all others wait for, in every way in which programs wait."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import wait_until
from other_machine import other_machine
from zygote import TORCH

# What only the kernel knows, and what the interpreter knows, which differs from version to version.
KERNEL = [
    *("pipe", "unix", "unix_poll", "tcp", "tcp_backlog", "tcp_mutual", "wait", "command", "flock", "lockf"),
    *("stopped", "zombie", "terminal", "chain"),
]
INTERPRETER = [
    *("lock", "lock_acquire", "rlock", "deadlock", "lock_deadlock", "condition", "queue", "event", "future"),
    *("join", "gil", "mp_queue", "mp_lock", "pool", "asyncio", "asyncio_waits"),
]
VERSIONS = ["3.6", "3.9", "3.13"]  # one of each way in which frames and locks were made

Start = Callable[..., tuple[subprocess.Popen[bytes], dict[str, Any]]]


def children_of(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(child) for child in task.read_text().split()]
    return found + [below for child in found for below in children_of(child)]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a scenario of target_why.py; gives its process and the truth about it."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(
        scenario: str,
        *more: object,
        python: object = None,
        prefix: list[str] | None = None,
        wait: bool = True,
        told_by: str = "",
        **environment: str,
    ) -> Any:
        truth = tmp_path / f"truth-{told_by or scenario}"
        interpreter = str(python or sys.executable)
        command = [*(prefix or []), interpreter, str(harness.TARGETS / "target_why.py"), scenario, str(truth)]
        with (tmp_path / "errors").open("ab") as errors:
            process = subprocess.Popen(
                [*command, *map(str, more)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=harness.clean_environment(**environment),
            )
        started.append(process)
        if not wait:
            return process, {}

        def is_told() -> bool:
            assert process.poll() is None, (tmp_path / "errors").read_text()
            return truth.exists()

        wait_until(is_told, 60, scenario)
        return process, json.loads(truth.read_text())

    yield begin
    for process in started:
        for pid in [process.pid, *children_of(process.pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def expect(probing: harness.Cli, truth: dict[str, Any], *arguments: object) -> dict[str, Any]:
    """Asks until the answer is the truth: the program may still be on its way to where it waits."""
    last: list[str] = [""]

    def is_right() -> dict[str, Any] | None:
        answer = probing(*arguments, "--json")
        if answer.code == 6:  # it gives up after 0.8 s, which a busy machine may need
            return None
        last[0] = answer.expect(0).stdout
        for cause in answer.json["causes"][:1]:
            root = cause["root"]
            right = cause["end"] == truth["end"]
            if truth["end"] == "outside":
                right = right and root["pid"] is None
            elif truth["end"] != "deadlock":
                right = right and root["pid"] == truth["pid"]
            if truth["func"]:
                right = right and truth["func"] in [step["func"] for step in cause["chain"][-2:]]
            if truth["reason"]:
                right = right and any(truth["reason"] in (step["reason"] or "") for step in cause["chain"])
            if right:
                return cause
        return None

    try:
        cause = wait_until(is_right, 40)
    except AssertionError as error:
        raise AssertionError(f"expected {truth}, the last answer was {last[0]}") from error
    return cause


@pytest.mark.parametrize("scenario", [*KERNEL, *INTERPRETER])
def test_why_names_the_one_that_all_wait_for(probing: harness.Cli, start: Start, scenario: str) -> None:
    process, truth = start(scenario)
    expect(probing, truth, "why", process.pid)


@pytest.mark.parametrize("version", VERSIONS)
def test_why_knows_the_locks_of_other_pythons(probing: harness.Cli, start: Start, version: str) -> None:
    found = [path for name, path in harness.pythons().items() if name.startswith(version + ".")]
    if not found:
        pytest.skip(f"no Python {version} here")
    for scenario in INTERPRETER:
        process, truth = start(scenario, python=found[0])
        expect(probing, truth, "why", process.pid)


def test_a_chain_over_four_processes_is_told_step_by_step(probing: harness.Cli, start: Start) -> None:
    process, truth = start("chain")
    cause = expect(probing, truth, "why", process.pid)
    pids = [step["pid"] for step in cause["chain"] if step["tid"]]
    assert pids[0] == process.pid and pids[-1] == truth["pid"] and len(set(pids)) == 4
    reasons = [step["reason"] for step in cause["chain"] if step["reason"]]
    assert [reason.split()[0] for reason in reasons] == ["pipe", "unix", "lock"]
    text = probing("why", process.pid).expect(0).stdout
    assert text.count("└ for pid") == 3
    assert "sleeps in culprit (target_why.py:" in text.splitlines()[-1]


def test_a_deadlock_is_called_one(probing: harness.Cli, start: Start) -> None:
    process, truth = start("deadlock")
    expect(probing, truth, "why", process.pid)
    text = probing("why", process.pid).expect(0).stdout
    assert "← deadlock" in text and text.count("RLock at 0x") == 2


def test_of_all_processes_the_causes_come_first(probing: harness.Cli, start: Start) -> None:
    first, truth = start("pipe")
    expect(probing, truth, "why", first.pid)
    second, other = start("unix")
    expect(probing, other, "why", second.pid)
    answer = probing("why", "--json").expect(0).json
    roots = {cause["root"]["pid"]: [each["pid"] for each in cause["waiting"]] for cause in answer["causes"]}
    assert first.pid in roots[truth["pid"]]
    assert second.pid in roots[other["pid"]]
    text = probing("why", first.pid, second.pid).expect(0).stdout
    assert any(line.startswith(f"pid {truth['pid']} ") for line in text.splitlines())


def test_a_socket_leads_into_another_network_namespace(probing: harness.Cli, start: Start) -> None:
    with other_machine() as there:
        _server, truth = start("listens_there", there.there, prefix=there.prefix, wait=False)
        client, truth = start("asks_there", there.there, told_by="listens_there")
        cause = expect(probing, truth, "why", client.pid)
        assert f"TCP {there.there}:" in cause["chain"][1]["reason"]


def test_another_host_is_outside(probing: harness.Cli, start: Start) -> None:
    with other_machine() as there:
        # Nobody answers: the packets go nowhere.
        subprocess.run([*there.prefix, "ip", "link", "set", "eth0", "down"], check=True)
        client, truth = start("connects_nowhere", there.there)
        cause = expect(probing, truth, "why", client.pid)
        assert there.there in cause["root"]["note"]


def test_no_thread_is_stopped(probing: harness.Cli, start: Start) -> None:
    """What could stop or change another process is never called."""
    if shutil.which("strace") is None:
        pytest.skip("no strace here")
    process, truth = start("lock")
    expect(probing, truth, "why", process.pid)
    calls = "trace=ptrace,kill,tkill,tgkill,process_vm_writev,process_vm_readv"
    command = ["strace", "-f", "-e", calls, str(probing.bin / "probing"), "why", str(process.pid)]
    seen = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "culprit" in seen.stdout
    made = {line.split("(")[0].split()[-1] for line in seen.stderr.splitlines() if "(" in line}
    assert "process_vm_readv" in made, seen.stderr
    assert not made & {"ptrace", "kill", "tkill", "tgkill", "process_vm_writev"}, seen.stderr


def test_errors_say_what_is_wrong(probing: harness.Cli) -> None:
    assert "no process" in probing("why", 999999999 % 4194304).expect(4).stderr
    assert "takes pids" in probing("why", 1, "train.py").expect(2).stderr


def test_a_process_of_another_user_may_not_be_looked_into(public_probing: harness.Cli, start: Start) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can be somebody else")
    process, _ = start("pipe")
    assert "may not be looked into" in public_probing.as_nobody("why", process.pid).expect(3).stderr


# ── torch ────────────────────────────────────────────────────────────────────────────────────


needs_torch = pytest.mark.skipif(
    not TORCH.exists(), reason="needs torch in build/torch-venv (tools/install_deps.sh torch)"
)


@needs_torch
def test_a_stuck_worker_of_a_data_loader_is_named(probing: harness.Cli, start: Start) -> None:
    process, truth = start("data_loader", python=TORCH)
    cause = expect(probing, truth, "why", process.pid)
    assert cause["root"]["process"].startswith("DataLoader worker ")


@needs_torch
def test_the_rank_that_is_missing_in_a_collective_is_named(probing: harness.Cli, start: Start) -> None:
    environment = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517"}
    ranks = [
        start("gloo", python=TORCH, wait=False, RANK=str(rank), LOCAL_RANK=str(rank), **environment)
        for rank in (2, 0)
    ]
    missing, truth = start("gloo", python=TORCH, RANK="1", LOCAL_RANK="1", **environment)
    assert truth["pid"] == missing.pid
    for process, _ in ranks:
        cause = expect(probing, truth, "why", process.pid)
        assert cause["root"]["rank"] == 1
        assert any("collective all_reduce" in (step["reason"] or "") for step in cause["chain"])
    cause = expect(probing, truth, "-t", "job", "why")
    assert {each["pid"] for each in cause["waiting"]} >= {process.pid for process, _ in ranks}


@needs_torch
def test_ranks_of_other_groups_are_not_waited_for(probing: harness.Cli, start: Start) -> None:
    environment = {"WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29519"}

    def rank(number: int, **options: Any) -> Any:
        place = {"RANK": str(number), "LOCAL_RANK": str(number)}
        return start("gloo_groups", python=TORCH, **place, **environment, **options)

    ranks = {number: rank(number, wait=False)[0] for number in (0, 2, 3)}
    missing, truth = rank(1)
    assert truth["pid"] == missing.pid
    cause = expect(probing, truth, "why", ranks[0].pid)
    assert [step["reason"] for step in cause["chain"] if "of ranks 0, 1" in (step["reason"] or "")], cause
    busy = {"end": "runs", "pid": ranks[3].pid, "func": "gloo_groups", "reason": "of ranks 2, 3"}
    expect(probing, busy, "why", ranks[2].pid)
