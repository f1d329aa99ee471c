"""Targets that need torch, without importing it each time: they are forked from a process that has it.

Importing takes seconds, also on an idle machine. What is forked is no child of ours, so the zygote is asked
how it ended. The probe is not in it before it is injected: tests of what happens from the first instruction
on start programs of their own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import harness

TORCH = harness.ROOT / "build/torch-venv/bin/python"


class Zygote:
    """`modules`: what else it imports, once for all."""

    def __init__(self, python: Path = TORCH, modules: tuple[str, ...] = ()) -> None:
        self.lock = threading.Lock()
        self.process = subprocess.Popen(
            [str(python), str(harness.TARGETS / "torch_zygote.py"), *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=harness.clean_environment(ROOM="x" * 16384),
            text=True,
        )
        assert self.read() == "ready"

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, order: dict[str, Any]) -> Any:
        assert self.process.stdin is not None
        with self.lock:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
            return json.loads(self.read())

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


class ForkedProcess:
    """As much of subprocess.Popen as a Target needs."""

    returncode: int | None = None
    end_is_meant = False

    def __init__(self, zygote: Zygote, pid: int, stdout: Path) -> None:
        self.zygote, self.pid = zygote, pid
        self.stdout = stdout.open("rb")

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self.zygote.ask({"ended": self.pid})
        return self.returncode

    def kill(self) -> None:
        self.end_is_meant = True
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        code = int(harness.wait_until(lambda: self.poll() is not None and str(self.poll()), 10, "it ends"))
        self.end_is_meant = True
        return code


class ForkedTarget(harness.Target):
    """`more` of the order: the machine it runs on, the library that is loaded before the program."""

    def __init__(
        self, zygote: Zygote, command: list[str], folder: Path, environment: dict[str, str], **more: object
    ) -> None:
        self.zygote, self.more = zygote, more
        super().__init__(command, folder, environment)

    def start(self, environment: dict[str, str]) -> Any:
        stdout = self.stderr_path.with_suffix(".stdout")
        os.mkfifo(stdout)
        program, *arguments = self.command
        order = {"program": program, "arguments": arguments, "environment": environment, **self.more}
        pid = self.zygote.ask(order | {"stdout": str(stdout), "stderr": str(self.stderr_path)})
        return ForkedProcess(self.zygote, pid, stdout)
