"""What the integration tests are written with: the command line, targets, and looks at /proc."""

from __future__ import annotations

import http.client
import json
import os
import platform
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ROOT / "tests/targets"
BIN = Path(os.environ.get("PROBING_BIN", ROOT / "build/release/bin"))
NOBODY = 65534
# A processor in software (tools/arm64_tests.py) is so many times slower: what tests wait for gets more time.
EMULATED = float(os.environ.get("PROBING_EMULATED", "0"))
PATIENCE = EMULATED or 1.0

# Variables of ours that the developer's shell may have, and that would change what tests see.
OWN_VARIABLES = (
    *("PROBING", "PROBE", "PROBING_DISABLE", "PROBING_LIBRARY", "PROBING_LOGLEVEL", "LD_PRELOAD"),
    *("PROBE_ADDR", "PROBING_ADDR", "PROBING_PORT", "PROBING_TOKEN", "PROBE_BG", "PROBE_PPROF"),
)


def clean_environment(**more: str) -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k not in OWN_VARIABLES} | more


def wait_until(condition: Callable[[], Any], timeout: float = 30.0, what: str = "") -> Any:
    """Waits until the condition is true and returns it; an AssertionError when it never is."""
    deadline = time.monotonic() + timeout * PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what or condition}")
        time.sleep(0.01)


# ── the command line ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Answer:
    code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    def expect(self, code: int) -> Answer:
        assert self.code == code, f"exit code {self.code}, expected {code}\n{self}"
        assert "Traceback" not in self.stderr, self.stderr
        return self


class Cli:
    """Runs `probing` (or a sibling) and gives back what a user would see."""

    def __init__(self, bin_dir: Path) -> None:
        self.bin = bin_dir

    def __call__(
        self,
        *arguments: object,
        program: str = "probing",
        timeout: float = 30,
        stdin: str | None = None,
        prefix: list[str] | None = None,
        **environment: str,
    ) -> Answer:
        command = [*(prefix or []), str(self.bin / program), *map(str, arguments)]
        started = time.monotonic()
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment(**environment),
        )
        try:
            data = stdin.encode() if stdin is not None else None
            stdout, stderr = process.communicate(data, timeout=timeout * PATIENCE)
        except subprocess.TimeoutExpired as error:
            process.kill()
            process.communicate()
            raise AssertionError(f"{command} did not end within {timeout} s") from error
        seconds = time.monotonic() - started
        return Answer(process.returncode, stdout.decode(), stderr.decode(), seconds)

    def as_nobody(self, *arguments: object, **options: Any) -> Answer:
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        return self(*arguments, prefix=user, **options)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def daemon_socket() -> Path | None:
    """Of this user's probingd, when there is one."""
    sockets = [folder / "probingd.sock" for folder in socket_directories(os.getuid())]
    return next((each for each in sockets if each.exists()), None)


def from_daemon(method: str, path: str, body: str | None = None, timeout: float = 30) -> str:
    """What this user's probingd answers; somebody must have begun to start it."""
    connection = UnixConnection(wait_until(daemon_socket, 20, "a probingd"), timeout)
    connection.request(method, path, body)
    answer = connection.getresponse().read().decode()
    connection.close()
    return answer


def ask_daemon(
    method: str, route: str, body: dict[str, Any] | None = None, timeout: float = 30
) -> dict[str, Any]:
    return json.loads(from_daemon(method, f"/api/v1/{route}", json.dumps(body) if body else None, timeout))


# ── what /proc says ──────────────────────────────────────────────────────────────────────────


def proc_status(pid: int, key: str) -> str:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return line.split(":", 1)[1].strip()
    return ""


def thread_states(pid: int) -> dict[int, str]:
    """tid → state letter. Threads that end meanwhile are left out."""
    states = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            text = Path(f"/proc/{pid}/task/{tid}/stat").read_text()
        except OSError:
            continue
        states[int(tid)] = text.rsplit(")", 1)[1].split()[0]
    return states


def children_of(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if proc_status(int(entry.name), "PPid") == str(pid):
                    found.append(int(entry.name))
    return found


def open_files(pid: int) -> dict[str, str]:
    links = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            links[fd] = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
    return links


@dataclass(frozen=True)
class Snapshot:
    """All that a refused or left target must have as before."""

    maps: str
    fds: dict[str, str]
    threads: frozenset[int]
    environ: bytes

    @staticmethod
    def of(pid: int) -> Snapshot:
        return Snapshot(
            maps=Path(f"/proc/{pid}/maps").read_text(),
            fds=open_files(pid),
            threads=frozenset(thread_states(pid)),
            environ=Path(f"/proc/{pid}/environ").read_bytes(),
        )


def socket_directories(uid: int) -> list[Path]:
    return [Path(parent) / f"probing-{uid}" for parent in ("/tmp", "/dev/shm", "/var/tmp")]


def probe_socket(pid: int) -> Path | None:
    for directory in socket_directories(os.getuid()):
        path = directory / f"{pid}.sock"
        if path.exists():
            return path
    return None


def is_probed(pid: int) -> bool:
    """By what the kernel knows, not by what we say."""
    return "libprobing" in Path(f"/proc/{pid}/maps").read_text() or probe_socket(pid) is not None


def wait_for_hooks(probing: Cli, pid: int) -> None:
    """They come some moments after the probe, step by step."""
    hooked = "import gc; any(getattr(each, '__name__', '') == 'gc_event' for each in gc.callbacks)"
    wait_until(lambda: probing("-t", pid, "eval", hooked).stdout == "True\n", 20, "the hooks are in place")


# ── targets ──────────────────────────────────────────────────────────────────────────────────


class Harm(AssertionError):
    """A target died or stayed stopped. tools/run_tests.py never tries a test again that fails with it."""


class Started(subprocess.Popen[bytes]):
    """Remembers that the test ended the process, or waited for its end: that end is no harm."""

    end_is_meant = False

    def wait(self, timeout: float | None = None) -> int:
        code = super().wait(timeout)
        self.end_is_meant = True
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None and sig in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGABRT):
            self.end_is_meant = True
        super().send_signal(sig)


class Target:
    """A program from tests/targets, ready, with its counters; killed when the test ends.

    It must live, and run, until then. Only a test that says so ends it: by kill(), by waiting for its end
    (finish(), process.wait()), or by will_end() where something else ends it. A fixture of conftest.py
    looks at every target after every test.
    """

    unchecked: ClassVar[list[Target]] = []  # all that were started, until a fixture has seen how they ended

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        self.command = command
        self.right_codes = {0, -signal.SIGKILL}
        self.harm = ""
        self._slots = folder / f"report-{time.monotonic_ns()}"
        self._slots.write_bytes(bytes(512))
        self.stderr_path = self._slots.with_suffix(".stderr")
        self.stderr_path.touch()
        self.process = self.start({"TARGET_REPORT": str(self._slots), **environment})
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode().split()
        if line[:1] != ["ready"]:
            self.kill()
            raise AssertionError(f"{command} did not become ready: {line} {self.stderr_path.read_text()}")
        self.counters = line[1:]
        Target.unchecked.append(self)

    def start(self, environment: dict[str, str]) -> Started:
        with self.stderr_path.open("wb") as stderr:
            return Started(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=clean_environment(**environment),
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def alive(self) -> bool:
        return self.process.poll() is None

    def report(self) -> dict[str, int]:
        numbers = struct.unpack_from(f"<{len(self.counters)}Q", self._slots.read_bytes())
        return dict(zip(self.counters, numbers, strict=True))

    def reset(self, counter: str) -> None:
        with self._slots.open("r+b") as file:
            file.seek(8 * self.counters.index(counter))
            file.write(bytes(8))

    def snapshot(self) -> Snapshot:
        return Snapshot.of(self.pid)

    def expect_progress(self, counter: str = "loops", timeout: float = 10) -> None:
        """The program goes on: its counter moves."""
        before = self.report()[counter]
        wait_until(
            lambda: not self.alive() or self.report()[counter] > before,
            timeout,
            f"{counter} of {self.command} goes on",
        )
        self.expect_unharmed()

    def will_end(self, *codes: int) -> None:
        """Something that the test does ends it, with one of these codes; without any, all are right."""
        self.process.end_is_meant = True
        self.right_codes = set(codes)

    def is_stopped(self) -> bool:
        with suppress(OSError):  # it has ended meanwhile
            return bool(set("tT") & set(thread_states(self.pid).values()))
        return False

    def stays_stopped(self) -> bool:
        """A stop is over within milliseconds; 't' or 'T' that stays is a thread left behind."""
        deadline = time.monotonic() + 5 * PATIENCE
        while self.is_stopped():
            if time.monotonic() > deadline:
                return True
            time.sleep(0.01)
        return False

    def find_harm(self) -> str:
        """What happened to it that the test did not ask for, or nothing."""
        code = self.process.poll()
        if code is None:
            return f"{self.command} stays stopped: {thread_states(self.pid)}" if self.stays_stopped() else ""
        if self.process.end_is_meant and (code in self.right_codes or not self.right_codes):
            return ""
        stderr = self.stderr_path.read_text(errors="replace")
        return f"{self.command} ended with {code}, which the test had not asked for: {stderr}"

    def expect_unharmed(self) -> None:
        code = self.process.poll()
        stderr = self.stderr_path.read_text(errors="replace")
        if code is not None:
            raise Harm(f"{self.command} ended with {code}: {stderr}")
        assert stderr == "", f"something wrote to the target's stderr: {stderr}"
        if self.stays_stopped():
            raise Harm(f"a thread of {self.command} stays stopped: {thread_states(self.pid)}")
        # A sampler that was told to stop may be in the middle of its last sample.
        wait_until(lambda: proc_status(self.pid, "TracerPid") == "0", 5, "nobody traces it any more")
        for counter, value in self.report().items():
            if counter in {"wrong", "eintr", "early", "other", "failed"}:
                assert value == 0, f"{counter} of {self.command}: {self.report()}"

    def finish(self, timeout: float = 60) -> str:
        """Waits for the end of a program that ends by itself; returns what it printed."""
        stdout, _ = self.process.communicate(timeout=timeout)
        assert self.process.returncode == 0, f"{self.command} ended with {self.process.returncode}"
        return stdout.decode()

    def kill(self) -> None:
        self.harm = self.harm or self.find_harm()
        if self.alive():
            self.process.kill()
        self.process.wait()
        self.harm = self.harm or self.find_harm()  # it may have been dying
        if self.process.stdout is not None:
            self.process.stdout.close()


def compile_target(name: str, folder: Path) -> Path:
    """Compiles tests/targets/target_<name>.c once per session. A machine without a compiler gets them ready
    made, in PROBING_TARGETS."""
    if "PROBING_TARGETS" in os.environ:
        return Path(os.environ["PROBING_TARGETS"]) / name
    output = folder / name
    if not output.exists():
        flags = ["-O2", "-Wall", "-pthread"]
        if platform.machine() == "x86_64":
            flags += ["-mno-red-zone", *(["-mavx2"] if name == "vectors" else [])]
        source = TARGETS / f"target_{name}.c"
        subprocess.run(["gcc", *flags, "-o", str(output), str(source), "-ldl"], check=True)
    return output


def pythons() -> dict[str, Path]:
    """Version → interpreter: pyenv's 3.6 and newer, those of `make pythons`, the one that runs the tests."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = {".".join(map(str, sys.version_info[:3])): Path(sys.executable)}
    for python in [*root.glob("versions/3.*/bin/python3"), *ROOT.glob("build/pythons/3.*/bin/python3")]:
        version = python.parent.parent.name
        if re.fullmatch(r"3\.\d+(\.\d+)?t?", version) and version_of(version) >= (3, 6):
            found[version] = python
    found.update(named_pythons())
    return dict(sorted(found.items(), key=lambda item: (version_of(item[0]), item[0])))


def named_pythons() -> dict[str, Path]:
    """Those of PROBING_PYTHONS=PATH:PATH: any other Python, 3.4 and 3.5 too."""
    named = [Path(path) for path in os.environ.get("PROBING_PYTHONS", "").split(":") if path]
    # Asked of sys alone: an old one may be without half of its library. A beta counts as its version.
    asked = "import sys; print('%d.%d.%d' % sys.version_info[:3] + ('t' if 't' in sys.abiflags else ''))"
    return {subprocess.check_output([path, "-c", asked], text=True).strip(): path for path in named}


def version_of(python: str) -> tuple[int, ...]:
    """Of "3.14t" (3, 14)."""
    return tuple(int(part) for part in python.rstrip("t").split("."))


def has_gil(python: str) -> bool:
    """Free-threaded builds have none, and keep the probe's library when it is ejected (functions.h)."""
    return not python.endswith("t")


def is_unpacked(python: str) -> bool:
    """Debian's stripped binary, run through a loader of its own (tools/install_pythons.sh)."""
    return (pythons()[python].parents[1] / "tree").exists()


def python_ids() -> list[str]:
    return list(pythons())


SUPPORTED = tuple((3, minor) for minor in range(6, 14))


def missing_pythons() -> list[str]:
    """Supported ones that this machine has not got, as "3.8". An emulated one is tried with those it has."""
    if EMULATED:
        return []
    found = {version_of(one)[:2] for one in pythons()}
    return [f"{major}.{minor}" for major, minor in SUPPORTED if (major, minor) not in found]


def wanted_pythons(of: Callable[[str], bool] = lambda python: True) -> list[str]:
    """What tests are parametrized with: the Pythons of this machine, and those that are missing. conftest.py
    skips these by name, so that no test vanishes with its interpreter."""
    wanted = [*pythons(), *missing_pythons()]
    return [one for one in sorted(wanted, key=lambda one: (version_of(one), one)) if of(one)]


def rows(probing: Cli, sql: str, target: int | Path | None = None) -> list[dict[str, Any]]:
    """What a query answers."""
    where = () if target is None else ("-t", target)
    return json.loads(probing(*where, "query", "-f", "json", sql).expect(0).stdout)


# ── the daemon ───────────────────────────────────────────────────────────────────────────────


def processes_of_daemons(bin_dirs: list[Path]) -> dict[int, bytes]:
    """Every probingd that was started from one of these folders, and its query workers: pid → command."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                executable = Path(os.readlink(entry / "exe").removesuffix(" (deleted)"))
                if executable.name == "probingd" and executable.parent in [d.resolve() for d in bin_dirs]:
                    found[int(entry.name)] = (entry / "cmdline").read_bytes()
            except OSError:
                continue
    return found


def daemons(bin_dirs: list[Path]) -> set[int]:
    """Without the workers, which end with their daemon."""
    return {pid for pid, command in processes_of_daemons(bin_dirs).items() if b"-worker" not in command}


def query_workers(bin_dirs: list[Path]) -> set[int]:
    found = processes_of_daemons(bin_dirs)
    return {pid for pid, command in found.items() if b"--query-worker" in command}


def has_ended(pid: int) -> bool:
    """Also while its parent has not collected it: the init of a container may take seconds."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return True
    threads = int(fields[17])  # the first may be gone while others still hold its sockets
    return fields[0] in "ZX" and threads <= 1


def stop_process(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: has_ended(pid), 10, f"process {pid} ends after SIGTERM")


def copy_for_everybody() -> Path:
    """The programs in a folder that other users can reach (a checkout often is in a private one)."""
    folder = Path(tempfile.mkdtemp(prefix="probing-bin-"))
    folder.chmod(0o755)
    for name in ("probing", "probe", "probingd", "libprobing.so", "libprobe.so", "libduckdb.so"):
        if (BIN / name).exists():
            shutil.copy2(BIN / name, folder / name)
    return folder
