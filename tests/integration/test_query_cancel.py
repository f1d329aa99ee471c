"""A query ends when nobody waits for its answer any more."""

from __future__ import annotations

import subprocess
from pathlib import Path

import harness
from harness import Cli, ask_daemon, wait_until

ENDLESS = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"


def query_workers() -> dict[int, int]:
    """pid → CPU time in ticks, of this user's daemon."""
    daemon = ask_daemon("GET", "health")["pid"]
    found = {}
    for listed in Path(f"/proc/{daemon}/task").glob("*/children"):
        for pid in listed.read_text().split():
            try:
                words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if b"--query-worker" in command:
                found[int(pid)] = int(words[11]) + int(words[12])
    return found


def test_a_client_that_goes_away_takes_its_query_with_it(probing: Cli) -> None:
    probing("query", "SELECT 1").expect(0)
    probing("config", "probing.query.timeout=600").expect(0)
    try:
        before = query_workers()
        command = [str(harness.BIN / "probing"), "query", ENDLESS]
        client = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=harness.clean_environment())

        def busy() -> list[int]:
            return [pid for pid, ticks in query_workers().items() if ticks > before.get(pid, 0) + 20]

        (worker,) = wait_until(busy, 30, "a worker works")
        client.kill()
        client.wait()
        wait_until(lambda: worker not in query_workers(), 20, "its worker is gone")
        assert probing("query", "-f", "csv", "SELECT 7 AS x").expect(0).stdout.split() == ["x", "7"]
    finally:
        probing("config", "probing.query.timeout=10").expect(0)
