"""History of several hosts in one directory, as on shared storage: all that read Parquet can read it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import harness
import pytest
from harness import Cli, Target, wait_until
from machines import machines
from test_history import MAKE, PACKAGE

ROWS = 50
EXPECTED = [[f"node{i}", i, ROWS, ROWS * (ROWS - 1) // 2, "shared"] for i in range(2)]
COLUMNS = "host, rank, count(*) AS c, sum(n) AS s, min(job) AS j"
DUCKDB = harness.ROOT / "build/clients-venv/bin/python"
SPARK = harness.ROOT / "build/spark-venv/bin/python"

# Each gets the directory, and prints rows as JSON.
BY_DUCKDB = f"""
import duckdb, json, sys
files = sys.argv[1] + "/*/*/*/table=python.ticks/*.parquet"
rows = duckdb.sql("SELECT {COLUMNS} FROM read_parquet(?, hive_partitioning = true) GROUP BY ALL ORDER BY ALL",
                  params=[files]).fetchall()
print(json.dumps([[int(x) if not isinstance(x, str) else x for x in row] for row in rows]))
"""
BY_SPARK = f"""
import json, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")  # it has no times of nanoseconds
files = sys.argv[1] + "/*/*/*/table=python.ticks"
spark.read.option("basePath", sys.argv[1]).parquet(files).createOrReplaceTempView("ticks")
rows = spark.sql("SELECT {COLUMNS} FROM ticks GROUP BY host, rank ORDER BY host").collect()
hour = "timestamp_micros(timestamp DIV 1000) > now() - interval 1 hour"
recent = spark.sql("SELECT count(*) FROM ticks WHERE " + hour).collect()
assert recent[0][0] == sum(row[2] for row in rows), recent
print(json.dumps([list(row) for row in rows]))
"""


@pytest.fixture(scope="module")
def folder(probing: Cli, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two hosts, each with a rank that writes rows, which are in files when this is there."""
    if os.getuid() != 0:
        pytest.skip("only root can make a network namespace")
    shared = tmp_path_factory.mktemp("shared") / "history"
    with machines(probing, 2) as network:
        for rank, one in enumerate(network):
            one.environment |= {
                "PROBING_RETENTION_DAYS": "1",
                "PROBING_DATA_DIR": str(shared),
                "PROBING_HISTORY_INTERVAL": "0.1",
                "PROBING_LIBRARY": str(harness.BIN / "libprobing.so"),
            }
            save = f"for i in range({ROWS}): Tick(i, 's').save()"
            program = [str(harness.TARGETS / "target_tables.py"), "nothing", str(PACKAGE), MAKE + save]
            command = [*one.prefix, sys.executable, *program]
            identity = {"RANK": str(rank), "WORLD_SIZE": "2", "PROBING_JOB": "shared"}
            writing = Target(command, shared.parent, one.environment | identity)
            sql = "SELECT rows FROM probing.history WHERE table_name = 'python.ticks'"

            def written() -> list[dict]:
                return one("query", "-f", "json", sql).expect(0).json  # noqa: B023

            wait_until(lambda: (rows := written()) and rows[0]["rows"] == ROWS, 30, "its rows are in files")
            writing.kill()
    yield shared


def with_python(python: Path, code: str, part: str) -> Callable[[Cli, Path], list]:
    def read(_: Cli, folder: Path) -> list:
        if not python.exists():
            pytest.skip(f"needs {python.parents[1].name} (tools/install_deps.sh {part})")
        done = subprocess.run([python, "-c", code, str(folder)], capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return read


def with_probing(probing: Cli, folder: Path) -> list:
    sql = "SELECT host, rank, count(*) AS c, sum(n)::BIGINT AS s, 'shared' AS j FROM python.ticks"
    answer = probing("-t", folder, "query", "-f", "json", f"{sql} GROUP BY ALL ORDER BY ALL").expect(0)
    return [list(row.values()) for row in answer.json]


READERS = {
    "probing": with_probing,
    "duckdb": with_python(DUCKDB, BY_DUCKDB, "clients"),
    "spark": with_python(SPARK, BY_SPARK, "spark"),
}


@pytest.mark.slow(240)  # Spark takes its time
@pytest.mark.parametrize("reader", READERS)
def test_rows_of_all_hosts_are_read_from_one_directory(probing: Cli, folder: Path, reader: str) -> None:
    assert READERS[reader](probing, folder) == EXPECTED
