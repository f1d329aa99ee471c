"""Hours of use, in short: entering, asking, recording, faults and leaving again and again; nothing grows.

Fifteen seconds in `make test`; `make soak SOAK_MINUTES=30` is the long form of the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import harness
import pytest
from harness import Cli, Target

MINUTES = float(os.environ.get("SOAK_MINUTES", "0.25"))
WARM_UP = 0.4  # of the time: caches fill, and the faults are here, so that one probingd sees the rest
OPEN_FOR_A_TARGET = 30
# The allocator of a fresh process takes memory for the first fifty rounds; the short form has no more.
TARGET_GROWTH_KB = 1024 if MINUTES >= 5 else 3 * 1024
DAEMON_GROWTH_KB = 10 * 1024
WRITTEN = 3000  # rows of a visit: more than the table keeps
WRITE = f"""
import sys
sys.path.insert(0, {str(harness.ROOT / "python")!r})
import probing
first = {{first}}
for number in range(first, first + {WRITTEN}):
    probing.log(step=number, loss=0.5)
sys.path.pop(0)
"""
SEEN = "SELECT count(*) AS rows, min(step) AS first, max(step) AS last FROM training_logs"
OVERWRITTEN = "SELECT overwritten, dropped FROM probing.drops WHERE table_name = 'python.metrics'"


@dataclass(frozen=True)
class Size:
    rss_kb: int
    threads: int
    fds: int

    @staticmethod
    def of(pid: int) -> Size:
        return Size(
            int(harness.proc_status(pid, "VmRSS").split()[0]),
            int(harness.proc_status(pid, "Threads")),
            len(harness.open_files(pid)),
        )


def use(probing: Cli, job: Target, folder: Path) -> None:
    """What somebody does with a target, from inject to eject."""
    probing("-t", job.pid, "inject").expect(0)
    assert probing("-t", job.pid, "eval", "6 * 7").expect(0).stdout == "42\n"
    assert harness.rows(probing, "SELECT func FROM python.stacks WHERE depth = 0", job.pid)
    probing("-t", job.pid, "backtrace").expect(0)
    probing("-t", job.pid, "record", "-d", "0.2", "-o", folder / "out.json").expect(0)
    probing("-t", job.pid, "eject").expect(0)


def lose_no_row_uncounted(probing: Cli, writer: Target, before: int) -> int:
    """The job knows how many rows it wrote, the rows say which of them are there, and probing.drops says how
    many are not: these are three sources. Returns how many were written until now."""
    probing("-t", writer.pid, "eval", WRITE.format(first=before)).expect(0)
    [seen] = harness.rows(probing, SEEN, writer.pid)
    [gone] = harness.rows(probing, OVERWRITTEN, writer.pid)
    written = before + WRITTEN
    assert seen["last"] == written - 1 and seen["rows"] == seen["last"] - seen["first"] + 1
    assert seen["rows"] + gone["overwritten"] + gone["dropped"] == written
    return written


def kill_the_daemon(probing: Cli) -> None:
    pid = int(probing("status", "--json").expect(0).json["pid"])
    with suppress(ProcessLookupError):
        os.kill(pid, 9)
    harness.wait_until(lambda: harness.has_ended(pid), 10, "probingd is gone")


@pytest.mark.slow(int(MINUTES * 60) + 120)
def test_nothing_grows_while_a_job_is_looked_into_again_and_again(
    probing: Cli, target: Callable[..., Target], tmp_path: Path
) -> None:
    job, writer, written = target("training"), target("busy"), 0
    probing("-t", writer.pid, "inject").expect(0)
    probing("-t", writer.pid, "config", "probing.table_rows=1000").expect(0)
    began, rounds = time.monotonic(), 0
    while time.monotonic() < began + MINUTES * 60 * WARM_UP or rounds < 3:
        use(probing, job, tmp_path)
        written = lose_no_row_uncounted(probing, writer, written)
        rounds += 1
        if rounds % 3 == 1:
            kill_the_daemon(probing)

    # What targets leave is kept for a while, with its descriptors: a short while here.
    probing("config", "probing.keep_ended=0.5").expect(0)
    use(probing, job, tmp_path)
    daemon = int(probing("status", "--json").expect(0).json["pid"])
    first, first_daemon = Size.of(job.pid), Size.of(daemon)
    sizes = [first.rss_kb]
    while time.monotonic() < began + MINUTES * 60 or rounds < 6:
        use(probing, job, tmp_path)
        written = lose_no_row_uncounted(probing, writer, written)
        rounds += 1
        sizes.append(Size.of(job.pid).rss_kb)
    # Files of /proc are open for every target of the moment; one that is never closed is one a round.
    harness.wait_until(
        lambda: len(harness.open_files(daemon)) <= first_daemon.fds + OPEN_FOR_A_TARGET,
        30,
        "descriptors are closed",
    )
    last, last_daemon = Size.of(job.pid), Size.of(daemon)
    print(f"{rounds} rounds; the job: {first} → {last}; probingd: {first_daemon} → {last_daemon}")
    # Sizes go up and down with what the allocator keeps: the least ones show what stays.
    tenth = max(1, len(sizes) // 10)
    print(f"least of each tenth, in KB: {[min(sizes[i : i + tenth]) for i in range(0, len(sizes), tenth)]}")

    assert last.rss_kb - first.rss_kb <= TARGET_GROWTH_KB
    assert (last.threads, last.fds) == (first.threads, first.fds)
    assert last_daemon.rss_kb - first_daemon.rss_kb <= DAEMON_GROWTH_KB
    job.expect_progress("steps")
