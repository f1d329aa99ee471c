"""The injector is killed at each system call that touches the target: the target never notices."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import harness
import pytest
from harness import Cli, Target

StartTarget = Callable[..., Target]

# Each call by which the injector acts on the target, or waits for it.
CALLS = (
    "ptrace",
    "process_vm_writev",
    "process_vm_readv",
    "wait4",
    "tgkill",
    "kill",
    "pidfd_send_signal",
    "prlimit64",
)


def run_under_strace(probing: Cli, pid: int, log: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
    command = [
        "strace",
        "-f",
        "-qq",
        "-o",
        str(log),
        *options,
        str(probing.bin / "probing"),
        "-t",
        str(pid),
        "inject",
        "--no-python",
    ]
    seconds = 60 * harness.PATIENCE
    return subprocess.run(command, capture_output=True, timeout=seconds, env=harness.clean_environment())


def count_calls(probing: Cli, target: StartTarget, log: Path, name: str) -> dict[str, int]:
    victim = target(name, c=True)
    run_under_strace(probing, victim.pid, log, f"--trace={','.join(CALLS)}")
    assert harness.is_probed(victim.pid), log.read_text()
    victim.expect_progress()
    found = re.findall(r"^\d+ +(\w+)\(", log.read_text(), re.MULTILINE)
    return {call: found.count(call) for call in CALLS if call in found}


@pytest.mark.slow(600)
@pytest.mark.parametrize("name", ["vectors", "blocked"])
def test_the_target_lives_when_the_injector_is_killed_at_any_system_call(
    probing: Cli, target: StartTarget, tmp_path: Path, name: str
) -> None:
    log = tmp_path / "strace"
    probing("list").expect(0)  # starts probingd, which strace would follow and wait for
    counts = count_calls(probing, target, log, name)
    assert counts.get("ptrace", 0) > 0, "the injector no longer uses ptrace: this test needs other calls"
    killed = 0
    for call, count in counts.items():
        for number in range(1, count + 1):
            victim = target(name, c=True)
            inject = f"--inject={call}:signal=KILL:when={number}"
            result = run_under_strace(probing, victim.pid, log, f"--trace={call}", inject)
            killed += result.returncode != 0
            victim.expect_progress()
            # It can still be entered, or says that it is: nothing half-done is in the way.
            probing("-t", victim.pid, "inject", "--no-python").expect(0)
            victim.expect_progress()
            victim.kill()
    assert killed > 0, "strace never killed the injector"
