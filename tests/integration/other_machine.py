"""Another machine: a network namespace with a cable to this one."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

_numbers = itertools.count(os.getpid() % 16000)


@dataclass(frozen=True)
class OtherMachine:
    here: str  # the address this machine has for the other one
    there: str  # and the other one for this
    link: str  # our end of the cable
    prefix: list[str]  # of commands that run there

    def set_cable(self, state: str) -> None:
        """up or down."""
        subprocess.run(["ip", "link", "set", self.link, state], check=True, capture_output=True)

    def slow_down(self, rate: str) -> None:
        """All that the other one sends goes through a narrow place from now on."""
        shape = f"tc qdisc replace dev eth0 root tbf rate {rate} burst 4kb latency 400ms".split()
        subprocess.run([*self.prefix, *shape], check=True, capture_output=True)

    def run(self, *command: str, **options: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | options
        return subprocess.run(
            [*self.prefix, *command], capture_output=True, text=True, timeout=30, env=environment
        )


@contextlib.contextmanager
def other_machine() -> Iterator[OtherMachine]:
    if os.getuid() != 0:
        pytest.skip("only root can make a network namespace")
    number = next(_numbers)
    network = f"10.{64 + number // 1024 % 64}.{number // 4 % 256}"
    here, there = f"{network}.{number % 4 * 4 + 1}", f"{network}.{number % 4 * 4 + 2}"
    link = f"pr{number}"
    holder = subprocess.Popen(["unshare", "-n", "sleep", "600"], stdout=subprocess.DEVNULL)
    try:
        inside = ["nsenter", "-t", str(holder.pid), "-n"]
        own = os.stat("/proc/self/ns/net").st_ino
        while os.stat(f"/proc/{holder.pid}/ns/net").st_ino == own and holder.poll() is None:
            pass  # until it has left
        cable = ["ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid)]
        made = subprocess.run(cable, capture_output=True, text=True)
        if made.returncode != 0:
            pytest.skip(f"this kernel makes no veth: {made.stderr.strip()}")
        for command in (
            ["ip", "addr", "add", f"{here}/30", "dev", link],
            ["ip", "link", "set", link, "up"],
            [*inside, "ip", "link", "set", "lo", "up"],
            [*inside, "ip", "addr", "add", f"{there}/30", "dev", "eth0"],
            [*inside, "ip", "link", "set", "eth0", "up"],
        ):
            subprocess.run(command, check=True, capture_output=True)
        yield OtherMachine(here, there, link, inside)
    finally:
        holder.kill()  # and the cable goes with it
        holder.wait()
