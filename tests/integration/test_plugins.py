"""Tables that users make: the examples of docs/guides/plugins.md, and views in ~/.config/probing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli, Target, rows, wait_until

StartTarget = Callable[..., Target]
PACKAGE = str(harness.ROOT / "python")
LIBRARY = str(harness.BIN / "libprobing.so")


# ── Python ───────────────────────────────────────────────────────────────────────────────────


def test_the_python_example_has_a_table(probing: Cli) -> None:
    job = subprocess.Popen(
        [sys.executable, str(harness.ROOT / "examples/plugin_python/train.py"), "30"],
        env=harness.clean_environment(PROBING_LIBRARY=LIBRARY, PYTHONPATH=PACKAGE),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert job.stdout is not None and job.stdout.readline() == b"done\n"
        sql = "SELECT shard, count(*) AS n, min(wait_ms) > 0 AS waited FROM python.batch"
        sql += " GROUP BY shard ORDER BY shard"
        assert rows(probing, sql, job.pid) == [
            {"shard": f"shard-{n}", "n": 10, "waited": True} for n in range(3)
        ]
        joined = "SELECT count(*) AS n FROM python.batch b JOIN training_logs t ON t.step = b.number"
        assert rows(probing, joined, job.pid) == [{"n": 30}]
        listed = "SELECT kind, origin, doc FROM probing.tables WHERE table_name = 'python.batch'"
        assert rows(probing, listed, job.pid)[0]["kind"] == "stored"
    finally:
        job.kill()
        job.communicate()


# ── C++ ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C++ example as its first lines say it is built."""
    path = tmp_path_factory.mktemp("plugin") / "libbatches.so"
    source = harness.ROOT / "examples/plugin_cpp/batches.cc"
    command = ["g++", "-std=c++17", "-O2", "-Wall", "-Werror", "-shared", "-fPIC"]
    command += [f"-I{harness.ROOT / 'include'}", "-o", str(path), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return path


LOAD = """
import ctypes, sys
plugin = ctypes.CDLL({path!r})
plugin.loaded_batch.argtypes = [ctypes.c_int64, ctypes.c_double, ctypes.c_char_p]
sys.loaded = plugin.loaded_batch
"""


def loaded(probing: Cli, pid: int, arguments: str) -> str:
    return probing("-t", pid, "eval", f"import sys; print(sys.loaded({arguments}))").expect(0).stdout.strip()


@pytest.mark.parametrize("way", ["inject", "preload", "import"])
def test_the_cpp_example_has_a_table(probing: Cli, target: StartTarget, plugin: Path, way: str) -> None:
    environment = {"LD_PRELOAD": LIBRARY} if way == "preload" else {}
    code = LOAD.format(path=str(plugin)) + ("import probing\n" if way == "import" else "")
    job = target("tables", "nothing", PACKAGE, code, PROBING_LIBRARY=LIBRARY, **environment)
    if way == "inject":
        probing("-t", job.pid, "inject").expect(0)
    wait_until(lambda: harness.probe_socket(job.pid), 30, "there is a probe")
    assert loaded(probing, job.pid, "2**63 - 1, 0.25, '😀 a shard with a long name'.encode()") == "1"
    assert loaded(probing, job.pid, "-1, float('nan'), None") == "1"
    sql = "SELECT number, wait_ms, shard, pid FROM loader.batches ORDER BY timestamp_ns"
    assert rows(probing, sql, job.pid) == [
        {"number": 2**63 - 1, "wait_ms": 0.25, "shard": "😀 a shard with a long name", "pid": job.pid},
        {"number": -1, "wait_ms": "NaN", "shard": None, "pid": job.pid},
    ]
    recent = "SELECT count(*) AS n FROM loader.batches WHERE timestamp > now() - interval '5 minutes'"
    assert rows(probing, recent, job.pid) == [{"n": 2}]
    job.expect_unharmed()


def test_a_cpp_table_stays_usable_after_an_eject(probing: Cli, target: StartTarget, plugin: Path) -> None:
    job = target("tables", "nothing", PACKAGE, LOAD.format(path=str(plugin)))
    probing("-t", job.pid, "inject").expect(0)
    assert loaded(probing, job.pid, "1, 1, None") == "1"
    answer = probing("-t", job.pid, "eject").expect(0)
    assert "stays mapped" in answer.stdout + answer.stderr
    job.expect_progress()
    # The plugin goes on writing, into nothing: what comes next is another probe, with tables of its own.
    probing("-t", job.pid, "inject").expect(0)
    assert loaded(probing, job.pid, "2, 2, None") == "0"
    job.expect_progress()


def test_without_a_probe_the_cpp_example_does_nothing(plugin: Path) -> None:
    code = LOAD.format(path=str(plugin)) + "print(sys.loaded(1, 1, None))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=harness.clean_environment(), capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("0\n", "")


# ── views and macros ─────────────────────────────────────────────────────────────────────────


@pytest.fixture
def config_folder(tmp_path: Path) -> Iterator[Path]:
    """~/.config/probing of a probingd that belongs to this test."""

    def stop() -> None:
        for pid in harness.daemons([harness.BIN]):
            harness.stop_process(pid)

    stop()
    folder = tmp_path / "probing"
    folder.mkdir()
    yield folder
    stop()


def test_views_and_macros_of_the_user_last(probing: Cli, target: StartTarget, config_folder: Path) -> None:
    job = target("sleep")

    def ask(sql: str) -> Any:
        options = {"XDG_CONFIG_HOME": str(config_folder.parent)}
        return probing("-t", job.pid, "query", "-f", "json", sql, **options)

    mine = config_folder / "mine.sql"
    mine.write_text(
        "-- what I always ask\n"
        "CREATE VIEW sleepers AS SELECT func, pid FROM python.stacks WHERE depth = 0;\n"
        "CREATE MACRO mb(bytes) AS bytes / 1048576.0;\n"
    )
    answer = ask("SELECT pid, mb(2097152)::DOUBLE AS two FROM sleepers").expect(0)
    assert answer.json == [{"pid": job.pid, "two": 2.0}] and answer.stderr == ""
    # A change is seen by the next query.
    mine.write_text("CREATE MACRO mb(bytes) AS bytes / 1000000;")
    assert ask("SELECT mb(2000000)::DOUBLE AS two").expect(0).json == [{"two": 2.0}]
    assert "sleepers" in ask("SELECT * FROM sleepers").expect(2).stderr
    # What does not work is said, and keeps nobody from asking.
    (config_folder / "broken.sql").write_text("CREATE TABLE t (x INT); CREATE VIEW v AS SELECT * FORM x")
    answer = ask("SELECT mb(1000000)::DOUBLE AS one").expect(0)
    assert answer.json == [{"one": 1.0}]
    assert "broken.sql" in answer.stderr and "warning" in answer.stderr
