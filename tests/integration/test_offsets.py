"""The tables of CPython's offsets are what the headers of every Python here say."""

from __future__ import annotations

import cpython_offsets
import harness
import pytest

FIRST, LAST = (3, cpython_offsets.FIRST), (3, cpython_offsets.LAST)
WITH_A_TABLE = harness.wanted_pythons(lambda python: FIRST <= harness.version_of(python)[:2] <= LAST)


def with_headers(python: str) -> str:
    path = str(harness.pythons()[python])
    if cpython_offsets.headers_of(path) is None:
        pytest.skip(f"no headers of Python {python} on this machine")
    return path


@pytest.mark.parametrize("python", WITH_A_TABLE)
def test_the_tables_are_what_the_headers_of_this_python_say(python: str) -> None:
    assert cpython_offsets.check([with_headers(python)]) == 0


@pytest.mark.parametrize("python", WITH_A_TABLE[-1:])
def test_a_changed_number_is_noticed(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = with_headers(python)
    right = cpython_offsets.parse(cpython_offsets.READER)
    wrong = {
        minor: {**numbers, "thread.next": numbers["thread.next"] + 8} for minor, numbers in right.items()
    }
    tables = {cpython_offsets.READER: wrong, cpython_offsets.GIL: cpython_offsets.parse(cpython_offsets.GIL)}
    monkeypatch.setattr(cpython_offsets, "parse", tables.__getitem__)
    assert cpython_offsets.check([path]) == 1


def test_the_tables_are_written_as_the_tool_writes_them() -> None:
    for path in cpython_offsets.FIELDS:
        tables = cpython_offsets.parse(path)
        assert path.read_text(encoding="utf-8") == cpython_offsets.render(path, tables)
