"""Users nobody else is: each has a daemon, targets and addresses of its own."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess

import harness
from harness import Answer, Cli

PYTHON = "/usr/bin/python3"  # other users can read it
SLEEP = "import time; print('ready', flush=True); time.sleep(600)"
BUSY = "print('ready', flush=True)\nwhile True: pass"

uids = itertools.count(61000 + os.getpid() % 2000)


class User:
    """Somebody nobody else is: their commands, their targets, their daemon."""

    def __init__(self, probing: Cli, uid: int, prefix: tuple[str, ...] = ()) -> None:
        self.uid = uid
        self._probing = probing
        self.prefix = [*prefix, "setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        self.targets: list[subprocess.Popen[bytes]] = []
        self.folder = harness.socket_directories(uid)[0]
        self.bin = probing.bin

    def __call__(self, *arguments: object, **options: str) -> Answer:
        return self._probing(*arguments, prefix=self.prefix, **options)

    def popen(self, *arguments: object) -> subprocess.Popen[bytes]:
        command = [*self.prefix, str(self._probing.bin / "probing"), *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def target(self, code: str = SLEEP, **environment: str) -> subprocess.Popen[bytes]:
        command = [*self.prefix, PYTHON, "-c", code]
        environment = harness.clean_environment(**environment)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        self.targets.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process

    def probed_target(self, code: str = SLEEP) -> subprocess.Popen[bytes]:
        process = self.target(code)
        self("-t", process.pid, "inject").expect(0)
        return process

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Any program, as this user."""
        return subprocess.run([*self.prefix, *command], capture_output=True, text=True, timeout=30)

    def _has(self, pid: int) -> bool:
        try:
            return harness.proc_status(pid, "Uid").split()[0] == str(self.uid)
        except OSError:
            return False  # it ended meanwhile

    def daemons(self) -> list[int]:
        return [pid for pid in harness.daemons([self._probing.bin]) if self._has(pid)]

    def daemon(self) -> int:
        return int(self("status", "--json").expect(0).json["pid"])

    def listed(self, pid: int) -> dict[str, str] | None:
        return next((one for one in self("list", "--json").expect(0).json if one["pid"] == pid), None)

    def leave(self) -> None:
        for process in self.targets:
            process.kill()
            process.communicate()
        for pid in self.daemons():
            harness.stop_process(pid)
        for folder in harness.socket_directories(self.uid):
            shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """One that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
