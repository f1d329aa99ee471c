"""A program in a pseudo-terminal, as a person would have it."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from contextlib import suppress

from harness import BIN, clean_environment

PROMPT = r">>> "  # of the REPL
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Terminal:
    """Starts `probing` with these arguments; send() types, expect() waits for what is shown."""

    def __init__(self, *arguments: object, columns: int = 100, rows: int = 40, **environment: str) -> None:
        self.seen = ""  # everything that was shown, without escape sequences
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.raw = ""  # the same with them
        self._from = 0
        self.pid, self._fd = pty.fork()
        size = struct.pack("HHHH", rows, columns, 0, 0)
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, size)  # before it may ask
            program = str(BIN / "probing")
            os.execve(
                program, [program, *map(str, arguments)], clean_environment(TERM="xterm", **environment)
            )
        self.code: int | None = None

    def send(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def expect(self, pattern: str, timeout: float = 20) -> re.Match[str]:
        """Waits until the pattern was shown after whatever was expected before."""
        deadline = time.monotonic() + timeout
        while True:
            match = re.compile(pattern, re.S).search(self.seen, self._from)
            if match:
                self._from = match.end()
                return match
            if time.monotonic() > deadline:
                raise AssertionError(f"{pattern!r} was not shown; all of it: {self.seen!r}")
            if not self._read(0.1) and self.code is not None:
                raise AssertionError(f"it ended without {pattern!r}: {self.seen[self._from :]!r}")

    def ask(self, line: str, pattern: str, timeout: float = 20) -> re.Match[str]:
        """Types a line and waits for what comes after its echo."""
        self.send(line + "\r")
        self.expect(re.escape(line.split("\n")[-1]) + r"\s*\n", timeout)
        return self.expect(pattern, timeout)

    def wait(self, timeout: float = 20) -> int:
        deadline = time.monotonic() + timeout
        while self.code is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"it did not end: {self.seen!r}")
            self._read(0.05)
        return self.code

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        if self.code is None:
            self.kill()
            self.wait()
        os.close(self._fd)

    def _read(self, seconds: float) -> bool:
        if select.select([self._fd], [], [], seconds)[0]:
            try:
                data = os.read(self._fd, 65536)
            except OSError:  # the program is gone
                data = b""
            if data:
                text = self._decoder.decode(data)
                self.raw += text
                self.seen += ESCAPES.sub("", text)
                return True
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return False
