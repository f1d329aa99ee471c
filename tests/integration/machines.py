"""Several machines on one network: namespaces of network, processes, name and files, and a bridge."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import harness
import pytest
from harness import Answer, Cli

_numbers = itertools.count(os.getpid() % 4000)
PORT = 3344
TOKEN = "a-token-that-all-machines-have"
# A process that keeps the namespaces, with directories of its own where a probingd puts its sockets.
HOLD = """hostname {name}; ip link set lo up; mkdir -p -m 700 {folders}
for folder in {folders}; do mount -t tmpfs -o mode=700 none $folder; done; echo ready; exec sleep 1200"""


class Machine:
    def __init__(self, probing: Cli, name: str, address: str) -> None:
        self.name, self.address = name, address
        self._probing = probing
        folders = " ".join(map(str, harness.socket_directories(0)))
        hold = HOLD.format(name=name, folders=folders)
        own = ["unshare", "-n", "-u", "-m", "-p", "--fork", "--kill-child", "--mount-proc"]
        self._unshare = subprocess.Popen(
            [*own, "--propagation", "private", "sh", "-c", hold], stdout=subprocess.PIPE
        )
        assert self._unshare.stdout is not None and self._unshare.stdout.readline() == b"ready\n"
        children = Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children")
        self.init = int(children.read_text())  # process 1 there: all others end with it
        self.prefix = ["nsenter", "-t", str(self.init), "-n", "-u", "-m", "-p", f"--wd={os.getcwd()}"]
        self.environment: dict[str, str] = {}

    def __call__(self, *arguments: object, **options: object) -> Answer:
        return self._probing(*arguments, prefix=self.prefix, **self.environment, **options)

    def run(self, *command: str) -> None:
        subprocess.run([*self.prefix, *command], check=True, capture_output=True)

    def slow_down(self, rate: str) -> None:
        """All that it sends goes through a narrow place from now on."""
        self.run(*f"tc qdisc replace dev eth0 root tbf rate {rate} burst 16kb latency 400ms".split())

    def leave(self) -> None:
        self._unshare.kill()
        self._unshare.wait()


@contextlib.contextmanager
def machines(probing: Cli, count: int) -> Iterator[list[Machine]]:
    """Each has a probingd, which knows the others."""
    if os.getuid() != 0:
        pytest.skip("only root can make a network namespace")
    number = next(_numbers)
    bridge, network = f"prbr{number}", f"10.{128 + number // 256 % 64}.{number % 256}"
    subprocess.run(["ip", "link", "add", bridge, "type", "bridge"], check=True, capture_output=True)
    started: list[Machine] = []
    try:
        subprocess.run(["ip", "link", "set", bridge, "up"], check=True)
        for i in range(count):
            one = Machine(probing, f"node{i}", f"{network}.{i + 1}")
            started.append(one)
            cable = f"ip link add prv{number}x{i} master {bridge} type veth peer name eth0 netns {one.init}"
            subprocess.run(cable.split(), check=True, capture_output=True)
            subprocess.run(["ip", "link", "set", f"prv{number}x{i}", "up"], check=True)
            one.run("ip", "addr", "add", f"{one.address}/24", "dev", "eth0")
            one.run("ip", "link", "set", "eth0", "up")
        peers = ",".join(f"{one.address}:{PORT}" for one in started)
        for one in started:
            one.environment = {
                "PROBING_TOKEN": TOKEN,
                "PROBING_SERVER_ADDR": f"{one.address}:{PORT}",
                "PROBING_CLUSTER_PEERS": peers,
                "XDG_CONFIG_HOME": f"{harness.socket_directories(0)[-1]}/config",
            }
        yield started
    finally:
        for one in started:
            one.leave()
        subprocess.run(["ip", "link", "del", bridge], check=False)
