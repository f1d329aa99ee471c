"""Rows that outlive the memory they were written into: probing.retention_days."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import harness
import pytest
from harness import Cli, Target, ask_daemon, wait_until

StartTarget = Callable[..., Target]
PACKAGE = harness.ROOT / "python"
MAKE = "import probing\n@probing.table(name='ticks')\nclass Tick(object):\n    n: int\n    s: str\n"
COUNT = (
    "SELECT count(*) AS rows, count(DISTINCT n) AS different, min(n) AS lo, max(n) AS hi FROM python.ticks"
)


class Job:
    """A target that writes rows when it is told to, and a daemon that keeps them in `folder`."""

    def __init__(self, cli: Cli, target: Target, folder: Path) -> None:
        self.cli, self.target, self.folder = cli, target, folder
        self.written = 0

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PROBING_RETENTION_DAYS": "1",
            "PROBING_DATA_DIR": str(self.folder),
            "PROBING_HISTORY_INTERVAL": "0.1",
        }

    def ask(self, sql: str, *where: object) -> list[dict]:
        return self.cli(*where, "query", "-f", "json", sql, **self.environment).expect(0).json

    def write(self, rows: int) -> None:
        end = self.written + rows
        code = f"for i in range({self.written}, {end}): Tick(i, 's%d' % (i % 5)).save()"
        self.cli("-t", self.target.pid, "eval", code, **self.environment).expect(0)
        self.written = end

    def in_files(self) -> int:
        sql = "SELECT rows FROM probing.history WHERE table_name = 'python.ticks'"
        found = self.ask(sql, "-t", self.target.pid)
        return found[0]["rows"] if found else 0

    def await_files(self, rows: int | None = None) -> None:
        wanted = self.written if rows is None else rows
        wait_until(lambda: self.in_files() >= wanted, 20, f"{wanted} rows in files")

    def expect_all_once(self, *where: object, least: int = 0) -> None:
        (found,) = self.ask(COUNT, *where)
        assert found["rows"] == found["different"] == self.written - least, (found, self.written)

    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*.parquet") if ".tmp" not in path.parts)


def children(pid: int) -> list[int]:
    text = "".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    return [int(word) for word in text.split()]


def has_ended(pid: int) -> bool:
    """Also its last thread: until then its sockets are open."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return state in "ZX" and len(os.listdir(f"/proc/{pid}/task")) <= 1
    except OSError:
        return True


def end_daemon(how: signal.Signals, with_workers: bool = False) -> None:
    """The daemon ends; its workers do so by themselves, after they have written what there is."""
    if harness.daemon_socket() is None:
        return
    try:
        pid = ask_daemon("GET", "health")["pid"]
    except OSError:  # one that a daemon which was killed has left
        return
    workers = children(pid)
    os.kill(pid, how)
    for worker in workers if with_workers else []:
        with suppress(ProcessLookupError):  # it may have noticed
            os.kill(worker, how)
    wait_until(lambda: all(map(has_ended, [pid, *workers])), 20, "the daemon and its workers have ended")


def stop_daemon() -> None:
    end_daemon(signal.SIGTERM)


def kill_daemon(with_workers: bool) -> None:
    end_daemon(signal.SIGKILL, with_workers)


@pytest.fixture
def job(probing: Cli, target: StartTarget, tmp_path: Path) -> Iterator[Job]:
    stop_daemon()  # the next one has our settings, and the one after our end has none of them
    library = str(harness.BIN / "libprobing.so")
    writing = target("tables", "nothing", PACKAGE, MAKE, PROBING_LIBRARY=library)
    one = Job(probing, writing, tmp_path / "history")
    one.ask("SELECT 1")
    wait_until(
        lambda: one.ask("SELECT 1 FROM probing.targets", "-t", one.target.pid), 10, "the target is known"
    )
    yield one
    stop_daemon()


def test_rows_that_the_ring_has_overwritten_are_still_there(job: Job) -> None:
    job.cli("-t", job.target.pid, "config", "probing.table_rows=500").expect(0)
    for _ in range(4):
        job.write(400)
        job.await_files()
    job.write(50)
    job.expect_all_once("-t", job.target.pid)
    job.expect_all_once()
    (drops,) = job.ask(
        "SELECT overwritten FROM probing.drops WHERE table_name = 'python.ticks'", "-t", job.target.pid
    )
    assert drops["overwritten"] > 0
    (lost,) = job.ask(
        "SELECT lost FROM probing.history WHERE table_name = 'python.ticks'", "-t", job.target.pid
    )
    assert lost["lost"] == 0
    job.target.expect_progress()


def test_a_directory_can_be_opened_without_anybody_alive(job: Job, tmp_path: Path) -> None:
    job.write(300)
    series = "SELECT 1 FROM system.cpu LIMIT 1"
    wait_until(lambda: job.ask(series, "-t", job.target.pid), 20, "it is looked at from outside, too")
    job.target.process.kill()
    job.target.process.wait()
    job.await_files()
    wait_until(lambda: job.ask("SELECT 1 FROM crash.events", "-t", job.target.pid), 20, "how it ended")
    stop_daemon()
    elsewhere = tmp_path / "copied"
    job.folder.rename(elsewhere)
    for where in (("-t", elsewhere), (elsewhere,)):
        answer = job.cli(*where, "query", "-f", "json", COUNT).expect(0).json
        assert answer == [{"rows": 300, "different": 300, "lo": 0, "hi": 299}]
    columns = job.cli("-t", elsewhere, "tables", "python.ticks").expect(0).stdout
    assert "timestamp" in columns and " n " in columns
    events = job.cli("-t", elsewhere, "query", "-f", "json", "SELECT signal FROM crash.events").expect(0).json
    assert events == [{"signal": "SIGKILL"}]
    # Nothing but tables: no process to look into.
    refused = job.cli("-t", elsewhere, "backtrace").expect(2)
    assert "directory" in refused.stderr


def test_what_is_in_files_and_in_memory_is_counted_once_while_it_is_written(job: Job) -> None:
    for _ in range(10):
        job.write(100)
        job.expect_all_once("-t", job.target.pid)


@pytest.mark.parametrize("with_workers", [False, True])
def test_a_killed_daemon_loses_nothing_and_doubles_nothing(job: Job, with_workers: bool) -> None:
    """kill -9 again and again while files are written."""
    for i in range(4):
        job.write(2000)
        time.sleep(0.05 * i)  # some moment or other of the writing
        kill_daemon(with_workers)
    job.write(10)
    job.await_files()
    job.expect_all_once("-t", job.target.pid)
    job.target.expect_progress()
    stop_daemon()
    assert not list((job.folder / ".tmp").iterdir()), "nothing half is left"


def test_files_are_parquet_for_everybody(job: Job) -> None:
    import pyarrow.parquet

    job.write(20)
    job.await_files()
    table = pyarrow.parquet.ParquetFile(next(p for p in job.files() if "table=python.ticks" in str(p))).read()
    assert table.column_names == ["timestamp", "n", "s", "pid", "rank", "host"]
    assert set(table["pid"].to_pylist()) == {job.target.pid}
    assert table["n"].to_pylist() == list(range(table.num_rows))


def test_old_days_and_too_much_go(job: Job) -> None:
    job.write(100)
    job.await_files()
    fresh = next(p for p in job.files() if "table=python.ticks" in str(p))
    # As another process left it long ago.
    old_day = Path(str(fresh.parent).replace(f"/{fresh.parent.parent.name}/", "/day=2020-01-01/"))
    old = old_day / fresh.name.replace(f"~{job.target.pid}~", "~1~")
    old.parent.mkdir(parents=True)
    old.write_bytes(fresh.read_bytes())
    stranger = old.parent / "mine.txt"
    stranger.write_text("not ours")
    job.cli("config", "probing.retention_days=2").expect(0)  # it looks at once
    wait_until(lambda: not old.exists(), 10, "the old day is gone")
    assert stranger.exists() and fresh.exists()
    job.expect_all_once("-t", job.target.pid)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", folder], check=False).returncode:
        pytest.skip("this user may not mount a tmpfs")
    yield folder
    stop_daemon()
    subprocess.run(["umount", "-l", folder], check=True)


def fill(path: Path) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    with suppress(OSError):
        while True:
            os.write(fd, bytes(4096))
    os.close(fd)


def test_a_full_disk_costs_rows_and_nothing_else(job: Job, small_disk: Path) -> None:
    stop_daemon()
    job.folder = small_disk
    job.cli("-t", job.target.pid, "config", "probing.table_rows=1000", **job.environment).expect(0)
    job.write(10)
    job.await_files()
    fill(small_disk / "filler")
    history = "SELECT rows, lost, problem FROM probing.history WHERE table_name = 'python.ticks'"

    def state() -> dict:
        found = job.ask(history, "-t", job.target.pid)
        return found[0] if found else {}

    for _ in range(8):
        job.write(1000)
    wait_until(lambda: state().get("problem"), 20, "a problem that says why")
    assert "space" in state()["problem"], state()
    job.target.expect_progress()
    (small_disk / "filler").unlink()
    job.write(10)
    wait_until(lambda: not state()["problem"] and state()["lost"], 20, "it goes on, and the loss is counted")
    job.await_files(job.written - state()["lost"])
    (found,) = job.ask(COUNT, "-t", job.target.pid)
    assert found["rows"] == found["different"] == job.written - state()["lost"], (found, state())


def test_off_is_the_default(probing: Cli, target: StartTarget, tmp_path: Path) -> None:
    stop_daemon()
    home = tmp_path / "home"
    home.mkdir()
    probing("query", "SELECT 1", HOME=str(home), XDG_DATA_HOME="").expect(0)
    value = probing("config", "probing.retention_days").expect(0).stdout
    assert value.strip() == "0"
    assert not (home / ".local").exists()
