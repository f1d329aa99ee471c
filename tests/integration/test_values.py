"""Values that get lost easily: from Python through the rings and SQL into every format, unchanged."""

from __future__ import annotations

import csv
import io
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli, Target

StartTarget = Callable[..., Target]
PACKAGE = str(harness.ROOT / "python")
SQL = "SELECT timestamp, timestamp_ns, i, d, b, s, x FROM python.value ORDER BY timestamp_ns"

NS = 1767225600123456789
TIME = "2026-01-01 00:00:00.123456+00"
BIG = "é😀" + "m" * (1 << 20)
HARD = '😀,"a"\nb | \\ \t'
# As Python has them; times in ns.
EXPECTED: list[tuple[Any, ...]] = [
    (NS, 2**63 - 1, math.nan, True, "", b""),
    (NS + 1, -(2**63), math.inf, False, HARD, b"\x00\xff'\"\\a"),
    (NS + 2, None, None, None, None, None),
    (NS + 3, 0, -0.0, False, BIG, BIG.encode()),
    (NS + 4, 1, 0.1, True, "NULL", b"NULL"),
]


@pytest.fixture
def job(target: StartTarget) -> Target:
    return target("values", PACKAGE, PROBING_LIBRARY=str(harness.BIN / "libprobing.so"))


def same(value: Any, expected: Any) -> bool:
    if isinstance(expected, float) and not isinstance(expected, bool):
        both_nan = value is not None and math.isnan(value) and math.isnan(expected)
        return both_nan or (value == expected and math.copysign(1, value) == math.copysign(1, expected))
    return type(value) is type(expected) and value == expected


def check(rows: list[tuple[Any, ...]]) -> None:
    assert len(rows) == len(EXPECTED)
    for row, expected in zip(rows, EXPECTED, strict=True):
        for value, wanted in zip(row, expected, strict=True):
            assert same(value, wanted), (str(value)[:80], str(wanted)[:80])


def ask(probing: Cli, job: Target, format: str) -> str:
    return probing("-t", job.pid, "query", "-f", format, SQL).expect(0).stdout


REALS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def from_json(row: dict[str, Any]) -> tuple[Any, ...]:
    assert row["timestamp"] == TIME
    real = REALS.get(row["d"], row["d"]) if isinstance(row["d"], str) else row["d"]
    return row["timestamp_ns"], row["i"], real, row["b"], row["s"], unescape(row["x"])


def unescape(text: str | None) -> bytes | None:
    if text is None:
        return None
    return text.encode().decode("unicode_escape").encode("latin-1")


@pytest.mark.parametrize("format", ["json", "jsonl"])
def test_json_has_every_value(probing: Cli, job: Target, format: str) -> None:
    text = ask(probing, job, format)
    rows = json.loads(text) if format == "json" else [json.loads(line) for line in text.splitlines()]
    check([from_json(row) for row in rows])


def test_csv_has_every_value(probing: Cli, job: Target) -> None:
    csv.field_size_limit(1 << 24)
    text = ask(probing, job, "csv")
    header, *rows = list(csv.reader(io.StringIO(text, newline="")))
    assert header == ["timestamp", "timestamp_ns", "i", "d", "b", "s", "x"]
    # NULL is nothing at all, an empty text is in quotes; Python's reader sees no difference.
    assert text.splitlines()[1].endswith(',nan,true,"",""')
    assert f"{NS + 2},,,,,\r\n" in text
    parsed = []
    for (_, ns, i, d, b, s, x), expected in zip(rows, EXPECTED, strict=True):
        if expected[1] is None:
            assert (i, d, b, s, x) == ("",) * 5
            parsed.append((int(ns), None, None, None, None, None))
        else:
            parsed.append((int(ns), int(i), float(d), b == "true", s, unescape(x)))
    check(parsed)


def test_text_for_people_has_every_value(probing: Cli, job: Target) -> None:
    for format in ("table", "markdown"):
        text = ask(probing, job, format)
        for part in (str(2**63 - 1), str(-(2**63)), str(NS), "nan", "inf", "NULL", "😀", BIG, "x00", "xFF"):
            assert part in text, (format, part[:20])
        lines = text.splitlines()
        assert len(lines) == len(EXPECTED) + (3 if format == "table" else 2), "a row is a line"


def python_rows(columns: dict[str, list[Any]]) -> list[tuple[Any, ...]]:
    return list(zip(*(columns[name] for name in ("timestamp_ns", "i", "d", "b", "s", "x")), strict=True))


@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_arrow_and_parquet_are_read_back_by_pyarrow(
    probing: Cli, job: Target, tmp_path: Path, format: str
) -> None:
    import pyarrow.ipc
    import pyarrow.parquet

    path = tmp_path / f"out.{format}"
    probing("-t", job.pid, "query", "-o", path, SQL).expect(0)
    if format == "parquet":
        table = pyarrow.parquet.read_table(path)
    else:
        table = pyarrow.ipc.open_stream(path.read_bytes()).read_all()
    assert str(table.schema.field("timestamp").type) == "timestamp[us, tz=UTC]"
    assert table.column("timestamp").cast("int64").to_pylist() == [NS // 1000] * len(EXPECTED)
    assert [str(table.schema.field(name).type) for name in "idbsx"] == [
        "int64",
        "double",
        "bool",
        "string",
        "binary",
    ]
    check(python_rows(table.to_pydict()))


# ── probing.query() ──────────────────────────────────────────────────────────────────────────

ASK = """
import sys
sys.path.insert(0, {package!r})
import os
os.environ["PROBING_DISABLE"] = "1"
{imports}
import probing
connection = probing.connect({pid})
answer = connection.query({sql!r}, format="auto")
print(type(answer).__module__.split(".")[0], type(answer).__name__)
{code}
"""


CLIENTS = harness.ROOT / "build/clients-venv/bin/python"  # has pandas, polars and pyarrow


def python_of_clients() -> str:
    if not CLIENTS.exists():
        pytest.skip("needs pandas and polars in build/clients-venv (tools/install_deps.sh clients)")
    return str(CLIENTS)


def run_python(imports: str, job: Target, code: str, python: str = sys.executable) -> list[str]:
    source = ASK.format(package=PACKAGE, imports=imports, pid=job.pid, sql=SQL, code=code)
    environment = harness.clean_environment(PROBING_LIBRARY=str(harness.BIN / "libprobing.so"))
    done = subprocess.run([python, "-c", source], env=environment, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def rows_from(line: str) -> list[tuple[Any, ...]]:
    return eval(line, {"nan": math.nan, "inf": math.inf, "datetime": __import__("datetime")})


def test_plain_rows_have_python_values(probing: Cli, job: Target) -> None:
    probing("status").expect(0)
    kind, times, rows = run_python(
        "", job, "print({row[0].isoformat() for row in answer})\nprint([row[1:] for row in answer])"
    )
    assert kind == "probing Rows"
    assert times == "{'2026-01-01T00:00:00.123456+00:00'}"
    check(rows_from(rows))


@pytest.mark.parametrize(
    ("module", "kind", "code"),
    [
        ("pyarrow", "pyarrow Table", "print([tuple(r.values())[1:] for r in answer.to_pylist()])"),
        ("polars", "polars DataFrame", "print([row[1:] for row in answer.rows()])"),
    ],
)
def test_frames_that_are_imported_are_what_one_gets(
    probing: Cli, job: Target, module: str, kind: str, code: str
) -> None:
    probing("status").expect(0)
    said, rows = run_python(f"import {module}", job, code, python_of_clients())
    assert said == kind
    check(rows_from(rows))


PANDAS = """
def plain(value):
    return None if value is pandas.NA or value is None else value.item() if hasattr(value, "item") else value
columns = [[plain(value) for value in answer[name]] for name in ("timestamp_ns", "i", "d", "b", "s", "x")]
print(answer["timestamp"].dt.tz, list(zip(*columns)))
"""


@pytest.mark.parametrize("without", ["", "pyarrow"])
def test_pandas_keeps_large_integers_beside_null(probing: Cli, job: Target, without: str) -> None:
    probing("status").expect(0)
    hidden = f"sys.modules[{without!r}] = None\n" if without else ""
    said, line = run_python(f"{hidden}import pandas", job, PANDAS, python_of_clients())
    assert said == "pandas DataFrame"
    zone, rows_text = line.split(" ", 1)
    assert zone == "UTC"
    rows = rows_from(rows_text)
    # In columns of floats and of text pandas has no NULL but NaN.
    assert math.isnan(rows[2][2])
    rows[2] = tuple(None if isinstance(value, float) else value for value in rows[2])
    check(rows)


def test_a_failed_query_says_why(probing: Cli, job: Target) -> None:
    probing("status").expect(0)
    code = "try:\n    connection.query('SELECT nope', {format!r})\nexcept probing.QueryError as e: print(e)"
    for format in ("rows", "pyarrow"):
        lines = run_python("", job, code.format(format=format))
        assert "nope" in "\n".join(lines[1:]), format
