"""SQL that wants too much, memory that is not there, rings that make no sense: a clear error, limits that are
kept, and a target that does not notice."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import harness
import pytest
from harness import Answer, Cli, Target, rows

StartTarget = Callable[..., Target]
PACKAGE = str(harness.ROOT / "python")
LIBRARY = str(harness.BIN / "libprobing.so")


@pytest.fixture
def short_limits(probing: Cli) -> Iterator[None]:
    probing("config", "probing.query.timeout=1", "probing.query.memory=64MB").expect(0)
    yield
    probing("config", "probing.query.timeout=10", "probing.query.memory=256MB").expect(0)


def worker_memory() -> int:
    """Resident bytes of the largest query worker."""
    largest = 0
    for pid in harness.query_workers([harness.BIN]):
        with suppress(OSError, IndexError):  # it has ended
            largest = max(largest, int(harness.proc_status(pid, "VmRSS").split()[0]) * 1024)
    return largest


@contextmanager
def watching(target: Target) -> Iterator[dict[str, int]]:
    """Meanwhile: how many steps the target makes, and how large the largest worker is."""
    seen = {"steps": 0, "memory": 0}
    done = threading.Event()
    first = target.report()["loops"]

    def watch() -> None:
        while not done.wait(0.02):
            seen["memory"] = max(seen["memory"], worker_memory())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        seen["steps"] = target.report()["loops"] - first
        done.set()
        thread.join()


ATTACKS = {
    "a gigabyte of text": ("SELECT length(repeat('x', 1000000000))", ""),
    "a gigabyte of text as the answer": ("SELECT repeat('x', 1000000000) AS x", ""),
    "texts that grow": (
        "WITH RECURSIVE t(s) AS (SELECT 'x' UNION ALL SELECT s || s FROM t) SELECT max(length(s)) FROM t",
        "",
    ),
    "rows without end": ("SELECT * FROM range(1000000000000)", "probing.query.rows"),
    "a sum without end": ("SELECT sum(range) FROM range(1000000000000)", "probing.query.timeout"),
    "a recursion without end": (
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n FROM t) SELECT count(*) FROM t",
        "probing.query.",
    ),
    "a product without end": (
        "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range = 7",
        "probing.query.",
    ),
    "a sort that does not fit": (
        "SELECT * FROM (SELECT hash(range) h, repeat('y', 100) FROM range(20000000))"
        " ORDER BY h LIMIT 1 OFFSET 999999",
        "probing.query.",
    ),
    "a list that does not fit": ("SELECT len(list(range)) FROM range(500000000)", "probing.query."),
}


@pytest.mark.parametrize("what", ATTACKS)
def test_a_greedy_query_ends_at_a_limit_and_the_target_goes_on(
    probing: Cli, target: StartTarget, short_limits: None, what: str
) -> None:
    sql, named = ATTACKS[what]
    job = target("sleep_steps")
    probing("-t", job.pid, "inject").expect(0)
    with watching(job) as seen:
        answer = probing("-t", job.pid, "query", "-f", "csv", sql, timeout=30)
    assert answer.code in (0, 1, 5), answer
    if answer.code != 0:
        assert answer.stderr.startswith("probing: ") and len(answer.stderr) < 2000, answer.stderr[:500]
        assert named in answer.stderr, answer.stderr
    else:
        assert named == "", "this should have been too much"
    # 64 MB for DuckDB, what one value may take beyond that, and the worker itself.
    assert seen["memory"] < 600 << 20
    assert seen["steps"] > 0, "the target goes on meanwhile"
    job.expect_unharmed()
    assert rows(probing, "SELECT 1 AS x", job.pid) == [{"x": 1}], "the next question is answered"


def test_several_attacks_at_once_keep_nobody_else_waiting_for_ever(
    probing: Cli, target: StartTarget, short_limits: None
) -> None:
    job = target("sleep_steps")
    probing("-t", job.pid, "inject").expect(0)
    answers: list[Answer] = []
    sql = "SELECT sum(range) FROM range(1000000000000)"
    attackers = [
        threading.Thread(target=lambda: answers.append(probing("query", sql, timeout=40))) for _ in range(3)
    ]
    with watching(job) as seen:
        for attacker in attackers:
            attacker.start()
        assert rows(probing, "SELECT 1 AS x", job.pid) == [{"x": 1}]
        for attacker in attackers:
            attacker.join()
    assert [answer.code for answer in answers] == [5, 5, 5]
    assert seen["steps"] > 0, "the target goes on meanwhile"


# ── memory that is not there ─────────────────────────────────────────────────────────────────

WRITE = """
import resource, sys, time
sys.path.insert(0, sys.argv[1])
{before}
import probing
{limit}
stored = sum(bool(probing.log(step=i, loss=0.5, note="x" * 1000 + str(i))) for i in range(20000))
print("stored" if stored else "nothing", flush=True)
sys.stdin.read()
"""


def write_rows(before: str = "", limit: str = "", **environment: str) -> subprocess.Popen[str]:
    code = WRITE.format(before=before, limit=limit)
    job = subprocess.Popen(
        [sys.executable, "-c", code, PACKAGE],
        env=harness.clean_environment(PROBING_LIBRARY=LIBRARY, **environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return job


def finish(job: subprocess.Popen[str]) -> str:
    _, stderr = job.communicate("")
    assert job.returncode == 0, stderr
    return stderr


@pytest.mark.parametrize(
    "limit",
    [
        "resource.setrlimit(resource.RLIMIT_AS, (int(open('/proc/self/statm').read().split()[0]) * 4096"
        " + (4 << 20), resource.RLIM_INFINITY))",
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))",
    ],
    ids=["address space", "file size"],
)
def test_a_ulimit_costs_rows_and_nothing_else(probing: Cli, limit: str) -> None:
    job = write_rows(limit=limit)
    assert job.stdout is not None
    said = job.stdout.readline().strip()
    assert said in ("stored", "nothing")
    # Whatever fitted can be read, what did not is counted.
    sql = "SELECT written, overwritten, dropped FROM probing.drops WHERE table_name = 'python.metrics'"
    found = rows(probing, sql, job.pid)
    if said == "stored":
        assert found[0]["written"] > 0
        [count] = rows(probing, "SELECT count(*) AS n FROM python.metrics", job.pid)
        assert count["n"] == found[0]["written"] - found[0]["overwritten"]
        assert found[0]["written"] + found[0]["dropped"] == 40000
    assert finish(job) == ""


def test_the_limit_of_the_rings_is_kept(probing: Cli) -> None:
    job = write_rows(PROBING_MAX_MEMORY="1MB")
    assert job.stdout is not None and job.stdout.readline() == "stored\n"
    ring = [link for link in Path(f"/proc/{job.pid}/fd").iterdir() if "probing-ring" in os.readlink(link)]
    assert len(ring) == 1
    assert os.stat(ring[0]).st_blocks * 512 <= 1 << 20
    [drops] = rows(probing, "SELECT * FROM probing.drops WHERE table_name = 'python.metrics'", job.pid)
    assert drops["rows"] + drops["overwritten"] + drops["dropped"] == 40000
    last = "SELECT max(step) AS step FROM python.metrics"
    assert rows(probing, last, job.pid) == [{"step": 19999}], "the newest rows are there"
    assert finish(job) == ""


def test_a_full_tmpfs_keeps_no_program_from_running() -> None:
    """There is no room for a socket, so nobody finds the probe; the job runs and its rows are stored."""
    script = (
        "for d in /tmp /dev/shm /var/tmp; do mkdir -p -m 700 $d/probing-$(id -u) && "
        "mount -t tmpfs -o size=4k,nr_inodes=1,mode=700 none $d/probing-$(id -u) || exit 77; done; "
        'exec "$0" -c "import sys; sys.path.insert(0, sys.argv[1]); import probing; '
        'print(all([probing.log(loss=1.0 * i) for i in range(20000)]))" "$1"'
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, sys.executable, PACKAGE],
        env=harness.clean_environment(PROBING_LIBRARY=LIBRARY),
        capture_output=True,
        text=True,
        timeout=50,
    )
    if done.returncode in (1, 77) and ("not permitted" in done.stderr or "denied" in done.stderr):
        pytest.skip("no right to mount a tmpfs here")
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


# ── rings that make no sense ─────────────────────────────────────────────────────────────────


def ring_of(pid: int) -> Path:
    for link in Path(f"/proc/{pid}/fd").iterdir():
        if "probing-ring" in os.readlink(link):
            return link
    raise AssertionError(f"process {pid} has no ring")


@pytest.mark.parametrize("seed", range(6))
def test_a_ring_that_its_owner_corrupts_harms_nobody(probing: Cli, target: StartTarget, seed: int) -> None:
    """Whoever can write the file writes garbage into it: queries answer or say what is wrong, and the
    rings of others are read as before."""
    import random

    good = target("values", PACKAGE, PROBING_LIBRARY=LIBRARY)
    bad = target("values", PACKAGE, PROBING_LIBRARY=LIBRARY)
    both = f"SELECT count(*) AS n FROM global.python.value WHERE pid IN ({good.pid}, {bad.pid})"
    assert rows(probing, both) == [{"n": 10}]
    chance = random.Random(seed)
    with ring_of(bad.pid).open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        for _ in range(200):
            # Half of it where the structure is, half anywhere.
            file.seek(chance.randrange(4096 if chance.random() < 0.5 else size - 8))
            file.write(chance.randbytes(8))
    for sql in (both, "SELECT * FROM python.value", "SELECT * FROM probing.drops", "SHOW TABLES"):
        answer = probing("-t", bad.pid, "query", "-f", "csv", sql)
        assert answer.code in (0, 1), answer
    mine = "SELECT count(*) AS n FROM python.value"
    assert rows(probing, mine, good.pid) == [{"n": 5}]
    good.expect_unharmed()
