"""What cannot or must not be entered is refused: a reason, a way out, and not a trace left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import harness
import pytest
from harness import Answer, Cli, Target, wait_until

StartTarget = Callable[..., Target]


def expect_refusal(answer: Answer, code: int, *words: str) -> None:
    """One line of error with the reason, the fix after it, and the exit code of base/result.h."""
    answer.expect(code)
    assert answer.stdout == ""
    lines = answer.stderr.splitlines()
    assert lines and lines[0].startswith("probing: "), answer.stderr
    assert len(lines) <= 3, answer.stderr
    for word in words:
        assert word.lower() in answer.stderr.lower(), f"'{word}' is not in: {answer.stderr}"


@contextmanager
def unchanged(target: Target) -> Iterator[None]:
    before = target.snapshot()
    yield
    after = target.snapshot()
    assert after.maps == before.maps
    assert after.fds == before.fds
    assert after.threads == before.threads
    assert after.environ == before.environ
    target.expect_unharmed()


# ── pids ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pid", ["0", "-1", "abc", "", "1.5", "99999999999999999999", "12 34"])
def test_what_is_no_pid_is_wrong_usage(probing: Cli, pid: str) -> None:
    answer = probing("-t", pid, "inject")
    assert answer.code in (2, 4), answer
    assert answer.stdout == ""
    assert answer.stderr.startswith("probing: "), answer


def test_a_pid_that_nobody_has_is_not_found(probing: Cli) -> None:
    expect_refusal(probing("-t", 999999999, "inject"), 4, "999999999")


def test_a_dead_process_is_not_found(probing: Cli) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    expect_refusal(probing("-t", child.pid, "inject"), 4, str(child.pid))
    expect_refusal(probing("-t", child.pid, "eval", "1"), 4, str(child.pid))


def test_a_zombie_is_refused(probing: Cli) -> None:
    child = subprocess.Popen(["true"])
    wait_until(lambda: harness.proc_status(child.pid, "State").startswith("Z"), 30, "a zombie")
    answer = probing("-t", child.pid, "inject")
    child.wait()
    assert answer.code in (3, 4), answer
    assert "zombie" in answer.stderr


def test_a_refusal_is_told_to_programs_as_json(probing: Cli) -> None:
    child = subprocess.Popen(["true"])
    wait_until(lambda: harness.proc_status(child.pid, "State").startswith("Z"), 30, "a zombie")
    answer = probing("-t", child.pid, "inject", "--json")
    child.wait()
    error = answer.json["error"]
    assert set(error) == {"code", "message", "hint"} and error["code"] in ("permission", "not_found")
    assert "zombie" in error["message"] and error["message"] in answer.stderr


PF_KTHREAD = 0x200000


def test_a_kernel_thread_is_refused(probing: Cli, target: StartTarget, tmp_path: Path) -> None:
    """No kernel thread is visible in a pid namespace: a process that /proc says is one stands in for it."""
    if os.getuid() != 0:
        pytest.skip("only root can mount over a file of /proc")
    ours = target("sleep")
    head, _, tail = Path(f"/proc/{ours.pid}/stat").read_text().rpartition(")")
    fields = tail.split()
    fields[6] = str(int(fields[6]) | PF_KTHREAD)
    told = tmp_path / "stat"
    told.write_text(f"{head}) {' '.join(fields)}\n")
    mount = f'mount --bind {told} /proc/{ours.pid}/stat && exec "$@"'
    prefix = ["unshare", "--mount", "sh", "-c", mount, "sh"]
    with unchanged(ours):
        expect_refusal(probing("-t", ours.pid, "inject", prefix=prefix), 4, "kernel thread")
    if Path("/proc/2/comm").exists() and Path("/proc/2/comm").read_text() == "kthreadd\n":
        expect_refusal(probing("-t", 2, "inject"), 4, "kernel thread")


def test_another_users_process_is_refused(public_probing: Cli, target: StartTarget) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can run the command as another user")
    ours = target("sleep")
    with unchanged(ours):
        expect_refusal(public_probing.as_nobody("-t", ours.pid, "inject"), 3, "uid 0", "sudo")
        assert public_probing.as_nobody("-t", ours.pid, "eval", "1").code in (3, 4)


def test_root_may_enter_another_users_process(probing: Cli, target: StartTarget) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can start a process as another user")
    shell = ["setpriv", f"--reuid={harness.NOBODY}", f"--regid={harness.NOBODY}", "--clear-groups"]
    # Debian's Python: the one of the tests may be in a folder that nobody cannot read.
    code = "import sys, time; print('ready', flush=True); time.sleep(600)"
    process = subprocess.Popen([*shell, "/usr/bin/python3", "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        probing("-t", process.pid, "inject").expect(0)
        assert probing("-t", process.pid, "eval", "1 + 1").expect(0).stdout == "2\n"
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def test_a_process_that_is_traced_already_is_refused_by_the_tracers_name(
    probing: Cli, target: StartTarget
) -> None:
    traced = target("sleep")
    strace = subprocess.Popen(["strace", "-qq", "-f", "-o", "/dev/null", "-p", str(traced.pid)])
    try:
        wait_until(lambda: harness.proc_status(traced.pid, "TracerPid") != "0", 30, "strace attaches")
        before = traced.snapshot()
        expect_refusal(probing("-t", traced.pid, "inject"), 3, "traced", "strace")
        assert traced.snapshot() == before
    finally:
        strace.terminate()
        strace.wait()
    traced.expect_unharmed()


# ── programs ─────────────────────────────────────────────────────────────────────────────────


def build_foreign(kind: str, folder: Path) -> Path:
    """A program of another kind, or a skip that says which compiler is missing."""
    source, output = "target_wait.c", folder / kind
    if kind == "static":
        command = ["gcc", "-static"]
    elif kind == "musl":
        command = ["musl-gcc"]
        if shutil.which("musl-gcc") is None:
            pytest.skip("musl-gcc is not installed")
    else:  # without a C library: Debian's compiler has none for 32 bits
        source, command = "target_wait_32bit.c", ["gcc", "-m32", "-nostdlib", "-static"]
    subprocess.run([*command, "-o", str(output), str(harness.TARGETS / source)], check=True)
    return output


@pytest.mark.parametrize(("kind", "word"), [("static", "static"), ("musl", "musl"), ("32-bit", "32-bit")])
def test_a_program_of_another_kind_is_refused(probing: Cli, tmp_path: Path, kind: str, word: str) -> None:
    foreign = Target([str(build_foreign(kind, tmp_path))], tmp_path, {})
    try:
        with unchanged(foreign):
            expect_refusal(probing("-t", foreign.pid, "inject"), 3, word)
    finally:
        foreign.kill()


def test_a_process_under_seccomp_is_refused_or_left_as_it_was(probing: Cli, target: StartTarget) -> None:
    sandboxed = target("seccomp", c=True)
    with unchanged(sandboxed):
        expect_refusal(probing("-t", sandboxed.pid, "inject"), 3, "seccomp")


def test_a_process_that_said_no_is_refused(probing: Cli, target: StartTarget) -> None:
    private = target("sleep", PROBING_DISABLE="1")
    with unchanged(private):
        expect_refusal(probing("-t", private.pid, "inject"), 3, "PROBING_DISABLE")


# ── libraries ────────────────────────────────────────────────────────────────────────────────


def test_a_missing_library_is_refused(probing: Cli, target: StartTarget, tmp_path: Path) -> None:
    sleeping = target("sleep")
    missing = tmp_path / "missing.so"
    with unchanged(sleeping):
        answer = probing("-t", sleeping.pid, "inject", "--dll", missing)
        assert answer.code in (1, 2, 4), answer
        assert str(missing) in answer.stderr


@pytest.mark.parametrize("content", ["empty", "text", "truncated", "directory", "other-machine"])
def test_a_corrupt_library_is_refused(
    probing: Cli, target: StartTarget, tmp_path: Path, content: str
) -> None:
    library = tmp_path / "corrupt.so"
    original = (harness.BIN / "libprobing.so").read_bytes()
    if content == "directory":
        library.mkdir()
    else:
        library.write_bytes(
            {
                "empty": b"",
                "text": b"This is not a library.\n" * 100,
                "truncated": original[: len(original) // 3],
                "other-machine": original[:18] + b"\xb7\x00" + original[20:],  # aarch64
            }[content]
        )
    sleeping = target("sleep")
    before = sleeping.snapshot()
    answer = probing("-t", sleeping.pid, "inject", "--dll", library)
    assert answer.code in (1, 2), answer
    assert str(library) in answer.stderr or "corrupt.so" in answer.stderr, answer
    sleeping.expect_unharmed()
    after = sleeping.snapshot()
    assert (after.fds, after.threads, after.environ) == (before.fds, before.threads, before.environ)
    probing("-t", sleeping.pid, "inject").expect(0)  # and the real one still goes in


def test_the_targets_own_loader_says_why_a_library_cannot_be_loaded(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    """dlerror of the target comes back to the user."""
    source, library = tmp_path / "broken.c", tmp_path / "broken.so"
    source.write_text("extern int nobody_has_this(void); int probing_x(void) { return nobody_has_this(); }\n")
    flags = ["-shared", "-fPIC", "-Wl,-z,now", "-o", str(library)]
    subprocess.run(["gcc", *flags, str(source)], check=True)
    sleeping = target("sleep")
    before = sleeping.snapshot()
    answer = probing("-t", sleeping.pid, "inject", "--dll", library)
    answer.expect(1)
    assert "nobody_has_this" in answer.stderr, answer
    wait_until(lambda: sleeping.snapshot().threads == before.threads, 30, "no thread is left")
    assert sleeping.snapshot().fds == before.fds
    sleeping.expect_unharmed()


# ── usage ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["inject", "--nonsense"], ["inject"], ["eval", "1"], ["-t"], ["config", "no.such.key"]],
)
def test_wrong_usage_is_exit_code_2(probing: Cli, arguments: list[str]) -> None:
    answer = probing(*arguments)
    assert answer.code == 2, answer
    assert answer.stderr.startswith("probing: "), answer
    assert answer.stdout == ""


def test_eval_in_a_process_without_a_probe_says_how_to_get_one(probing: Cli, target: StartTarget) -> None:
    sleeping = target("sleep")
    with unchanged(sleeping):
        answer = probing("-t", sleeping.pid, "eval", "1")
        assert answer.code in (1, 4), answer
        assert "inject" in answer.stderr


def test_doctor_shows_the_same_checks_as_a_table(probing: Cli, target: StartTarget) -> None:
    healthy, private = target("sleep"), target("sleep", PROBING_DISABLE="1")
    probing("doctor").expect(0)
    with unchanged(healthy), unchanged(private):
        assert "owner" in probing("doctor", healthy.pid).expect(0).stdout
        answer = probing("doctor", private.pid)
    assert answer.code in (1, 3), answer
    assert "PROBING_DISABLE" in answer.stdout


def test_a_probe_talks_to_its_own_user_and_root_only(probing: Cli, target: StartTarget) -> None:
    """The directory of its socket keeps others away; the probe does not rely on that."""
    if os.getuid() != 0:
        pytest.skip("only root can be somebody else")
    job = target("sleep")
    probing("-t", job.pid, "inject").expect(0)
    path = harness.probe_socket(job.pid)
    assert path is not None
    folder = Path(tempfile.mkdtemp(prefix="probing-test-", dir=path.parents[1]))
    try:
        folder.chmod(0o755)
        os.link(path, folder / "probe.sock")
        (folder / "probe.sock").chmod(0o666)
        code = (
            "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.settimeout(1)\ns.connect(sys.argv[1])\n"
            "try:\n    print('closed' if s.recv(1) == b'' else 'answered')\n"
            "except ConnectionResetError:\n    print('closed')\nexcept OSError:\n    print('open')\n"
        )
        command = ["/usr/bin/python3", "-c", code, str(folder / "probe.sock")]
        stranger = ["setpriv", f"--reuid={harness.NOBODY}", f"--regid={harness.NOBODY}", "--clear-groups"]
        answers = [
            subprocess.run([*who, *command], capture_output=True, text=True, timeout=20, check=True).stdout
            for who in (stranger, [])
        ]
        assert answers == ["closed\n", "open\n"]
    finally:
        shutil.rmtree(folder)
    job.expect_unharmed()
