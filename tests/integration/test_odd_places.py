"""Containers and the like: what they take away is named, with what to change, and the rest still works.

Each place is made here with what makes it one: capabilities, namespaces, a seccomp filter, a read-only root.
No Docker or Kubernetes takes part. gVisor is the real one, where Debian's package `runsc` is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import harness
import pytest
from harness import Answer, Cli, Target, wait_until

StartTarget = Callable[..., Target]
PTRACE_LINE = "securityContext: {capabilities: {add: [SYS_PTRACE]}}"

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can make these places")


@pytest.fixture(autouse=True)
def daemon_of_its_own() -> Iterator[None]:
    """One that was started with fewer rights must not answer the next test."""
    yield
    for pid in harness.daemons([harness.BIN]):
        harness.stop_process(pid)


# Without CAP_SYS_PTRACE, as root in most containers is.
WITHOUT_PTRACE = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]
WITHOUT_ANY = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]

# Runs a command under a filter that answers EPERM to some calls, as profiles of containers do.
FILTER = r"""
import ctypes, os, struct, sys
calls = [int(number) for number in sys.argv[1].split(",")]
code = struct.pack("<HBBI", 0x20, 0, 0, 0)
for number in calls:
    code += struct.pack("<HBBI", 0x15, 0, 1, number) + struct.pack("<HBBI", 0x06, 0, 0, 0x00050001)
code += struct.pack("<HBBI", 0x06, 0, 0, 0x7FFF0000)
libc = ctypes.CDLL(None, use_errno=True)
text = ctypes.create_string_buffer(code)
program = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(text)))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0, ctypes.get_errno()
os.execv(sys.argv[2], sys.argv[2:])
"""
PTRACE, READ_MEMORY = 101, 310  # x86-64


def forbidding(*calls: int) -> list[str]:
    return ["/usr/bin/python3", "-c", FILTER, ",".join(map(str, calls))]


def frames_of(answer: Answer) -> list[str]:
    return [frame["func"] for thread in answer.expect(0).json["threads"] for frame in thread["frames"]]


def names(answer: Answer, name: str) -> str:
    """What doctor says on the line of this check and on that of its fix."""
    rows = [row for row in answer.json if row["name"] == name]
    assert rows, answer
    return " ".join(str(row.get(key, "")) for row in rows for key in ("detail", "problem", "fix"))


# ── capabilities ─────────────────────────────────────────────────────────────────────────────


def test_a_container_without_sys_ptrace_can_be_entered_from_inside(probing: Cli, target: StartTarget) -> None:
    """Command and job have the same user and the same capabilities: the kernel needs no more."""
    job = target("sleep", prefix=WITHOUT_PTRACE)
    assert frames_of(probing("-t", job.pid, "backtrace", "--json", prefix=WITHOUT_PTRACE))
    probing("doctor", job.pid, prefix=WITHOUT_PTRACE).expect(0)
    probing("-t", job.pid, "inject", prefix=WITHOUT_PTRACE).expect(0)
    assert probing("-t", job.pid, "eval", "6 * 7", prefix=WITHOUT_PTRACE).expect(0).stdout == "42\n"
    probing("-t", job.pid, "eject", prefix=WITHOUT_PTRACE).expect(0)
    job.expect_unharmed()


def test_a_job_with_capabilities_that_the_sidecar_lacks_is_refused_by_their_names(
    probing: Cli, target: StartTarget
) -> None:
    job = target("sleep", prefix=WITHOUT_PTRACE)
    said = probing("doctor", job.pid, "--json", prefix=WITHOUT_ANY).expect(3)
    assert "SYS_ADMIN" in names(said, "capabilities") and PTRACE_LINE in names(said, "capabilities")
    refused = probing("-t", job.pid, "inject", prefix=WITHOUT_ANY).expect(3)
    assert "capabilities that are missing here" in refused.stderr and PTRACE_LINE in refused.stderr
    job.expect_unharmed()


# ── seccomp ──────────────────────────────────────────────────────────────────────────────────


def test_a_profile_without_ptrace_is_named_and_stacks_are_read(probing: Cli, target: StartTarget) -> None:
    job = target("sleep", prefix=forbidding(PTRACE))
    said = probing("doctor", job.pid, "--json", prefix=forbidding(PTRACE)).expect(3)
    assert "forbids ptrace (EPERM)" in names(said, "ptrace") and PTRACE_LINE in names(said, "ptrace")
    refused = probing("-t", job.pid, "inject", prefix=forbidding(PTRACE)).expect(3)
    assert "forbids ptrace" in refused.stderr
    assert frames_of(probing("-t", job.pid, "backtrace", "--json", prefix=forbidding(PTRACE)))
    job.expect_unharmed()


def test_where_memory_may_not_be_read_by_its_own_call_proc_is_read(probing: Cli, target: StartTarget) -> None:
    """Podman's profile takes process_vm_readv away from containers without SYS_PTRACE."""
    job = target("plain")
    truth = frames_of(probing("-t", job.pid, "backtrace", "--json"))
    assert frames_of(probing("-t", job.pid, "backtrace", "--json", prefix=forbidding(READ_MEMORY))) == truth
    said = probing("doctor", "--json", prefix=forbidding(READ_MEMORY)).expect(0)
    assert "process_vm_readv is not (EPERM)" in names(said, "ptrace")
    job.expect_unharmed()


def test_a_job_under_the_same_filter_as_the_command_is_entered(probing: Cli, target: StartTarget) -> None:
    """As a container's own profile, which both of them live under."""
    swapon = 167
    job = target("sleep", prefix=forbidding(swapon))
    refused = probing("-t", job.pid, "inject").expect(3)
    assert "seccomp" in refused.stderr and "inside the same container" in refused.stderr
    probing("-t", job.pid, "inject", prefix=forbidding(swapon)).expect(0)
    probing("-t", job.pid, "eject").expect(0)
    job.expect_unharmed()


# ── namespaces ───────────────────────────────────────────────────────────────────────────────


def test_root_enters_a_job_in_a_user_namespace(probing: Cli, target: StartTarget) -> None:
    """As Podman without root: in there it is uid 0, outside somebody else."""
    job = target("sleep", prefix=["unshare", "--user", "--map-root-user"])
    assert frames_of(probing("-t", job.pid, "backtrace", "--json"))
    assert "another one" in names(probing("doctor", job.pid, "--json").expect(0), "user namespace")
    probing("-t", job.pid, "inject").expect(0)
    assert probing("-t", job.pid, "eval", "6 * 7").expect(0).stdout == "42\n"
    probing("-t", job.pid, "eject").expect(0)
    job.expect_unharmed()


def test_from_inside_a_user_namespace_a_job_outside_is_refused_by_name(
    probing: Cli, target: StartTarget
) -> None:
    job = target("sleep")
    inside = ["unshare", "--user", "--map-root-user"]
    refused = probing("-t", job.pid, "inject", prefix=inside).expect(3)
    assert "cannot be looked into from this user namespace" in refused.stderr
    job.expect_unharmed()


def test_a_number_of_another_pid_namespace_is_told_as_it_is_here(probing: Cli, target: StartTarget) -> None:
    own = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    # A shell is 1 there; the job's number is one that nothing here is likely to have.
    number_it = 'echo 30000 > /proc/sys/kernel/ns_last_pid; "$@"; exit'
    holder = target("sleep", prefix=[*own, "sh", "-c", number_it, "sh"])
    inner = wait_until(lambda: next(iter(inner_pids(holder.pid)), None), 20, "the job in its namespace")
    pid, number = inner
    if Path(f"/proc/{number}").exists():
        pytest.skip(f"there is a process {number} here as well")
    missing = probing("-t", number, "backtrace").expect(4)
    assert f"no process {number}" in missing.stderr and str(pid) in missing.stderr, missing
    assert frames_of(probing("-t", pid, "backtrace", "--json"))


def inner_pids(holder: int) -> list[tuple[int, int]]:
    """Descendants that are not the first process of their namespace, as (here, there)."""
    found = []
    for child in harness.children_of(holder):
        for pid in [child, *harness.children_of(child)]:
            numbers = harness.proc_status(pid, "NSpid").split()
            if len(numbers) > 1 and numbers[-1] != "1":
                found.append((pid, int(numbers[-1])))
    return found


# ── files ────────────────────────────────────────────────────────────────────────────────────


def read_only_root() -> list[str]:
    """A root without a single folder that a probe could put its socket in."""
    read_only = "mount --rbind $d $d && mount -o remount,ro,bind $d"
    script = f'for d in /tmp /dev/shm /var/tmp; do {read_only} || exit 1; done; exec "$@"'
    return ["unshare", "--mount", "sh", "-c", script, "sh"]


def test_a_read_only_root_is_named_before_anything_is_touched(probing: Cli, tmp_path: Path) -> None:
    code = "import time; print('ready', flush=True); time.sleep(600)"
    with subprocess.Popen([*read_only_root(), "/usr/bin/python3", "-c", code], stdout=subprocess.PIPE) as job:
        assert job.stdout is not None and job.stdout.readline() == b"ready\n"
        try:
            before = harness.Snapshot.of(job.pid)
            said = probing("doctor", job.pid, "--json").expect(3)
            assert "EROFS" in names(said, "sockets") and "emptyDir" in names(said, "sockets")
            refused = probing("-t", job.pid, "inject").expect(3)
            assert "EROFS" in refused.stderr and "emptyDir" in refused.stderr
            assert harness.Snapshot.of(job.pid) == before
            assert frames_of(probing("-t", job.pid, "backtrace", "--json"))
        finally:
            job.kill()


# ── gVisor ───────────────────────────────────────────────────────────────────────────────────


def find_gvisor() -> str:
    found = shutil.which("runsc") or str(harness.ROOT / "build/deps/gvisor/usr/bin/runsc")
    if not Path(found).exists():
        pytest.skip("runsc is not installed")
    return found


def test_gvisor_is_named_and_stacks_are_read_in_it(tmp_path: Path) -> None:
    gvisor = [
        find_gvisor(),
        f"--root={tmp_path}",
        "--platform=ptrace",
        "--network=none",
        "--ignore-cgroups",
        "do",
    ]
    script = f"""
python3 -c "import time; print('ready', flush=True); time.sleep(600)" > {tmp_path}/said & job=$!
until grep -q ready {tmp_path}/said; do sleep 0.1; done
for command in "doctor $job" "-t $job inject" "-t $job backtrace"; do
  {harness.BIN}/probing $command; echo "exit $?"
done 2>&1
kill -9 $job
"""
    done = subprocess.run([*gvisor, "sh", "-c", script], capture_output=True, text=True, timeout=50)
    if "exit" not in done.stdout:
        pytest.skip(f"runsc does not start here: {done.stderr[-200:]}")
    doctor, inject, backtrace = done.stdout.split("exit ")[:3]
    assert "this is gVisor (runsc)" in doctor and "runtimeClassName" in doctor, done
    assert inject.startswith("3\n") and "this is gVisor (runsc)" in inject, done
    assert backtrace.startswith("3\n") and "<module> (<string>:1)" in backtrace, done
