"""Rows that C++ writes by position have their values where the table's declaration has the columns."""

from __future__ import annotations

import re

import harness
import pytest

ROWS = (harness.ROOT / "src/pyapi/torch_rows.cc").read_text()
TABLES = (harness.ROOT / "src/table/torch_tables.cc").read_text()

# What stands in the value of these columns, of whatever others there are.
STEPS = {
    "step": "step_",
    "data_wait": "data_wait",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "overhead": "overhead",
    "phase": "kPhases",
    "step_source": "kSources",
}
TRACE = {
    "step": "step.number",
    "seq": "seq",
    "module": "name.path",
    "module_type": "name.type",
    "operation_name": "name.forward",
    "stage": "stages",
    "allocated": "memory.allocated",
    "max_allocated": "memory.max_allocated",
    "cached": "memory.cached",
    "duration": "Seconds(",
    "duration_ms": "/ 1e6",
    "device": "device",
    "sampled": "rate",
}
# Columns that words are interned for: kModuleColumn is the position of `module`.
INTERNED = {
    "Module": "module",
    "Type": "module_type",
    "Operation": "operation_name",
    "Stage": "stage",
    "Device": "device",
    "Phase": "phase",
}


def columns(table: str) -> list[str]:
    """Of a declared table, in their order."""
    about = TABLES[TABLES.index(f'"{table}"') :]
    declared = next(name for name in re.findall(r"\bk\w+\b", about) if f"std::array {name}{{" in TABLES)
    body = TABLES[TABLES.index(f"std::array {declared}{{") :]
    found = re.findall(r'^    (?:Column\{"(\w+)"|kTime)', body[: body.index("};")], re.MULTILINE)
    return [name or "timestamp" for name in found]


def cells(function: str) -> list[str]:
    """The values that a function puts into its row."""
    body = ROWS[ROWS.index(f"TorchRows::{function}(") :]
    body = body[body.index("cells[] = {") + len("cells[] = {") : body.index("};\n  tracer_")]
    values, depth = [""], 0
    for character in body:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            values.append("")
        else:
            values[-1] += character
    return [value.strip() for value in values if value.strip()]


@pytest.mark.parametrize(
    ("table", "function", "hints"),
    [("python.torch_steps", "WriteStep", STEPS), ("python.torch_trace", "WriteCall", TRACE)],
)
def test_values_stand_where_their_columns_are(table: str, function: str, hints: dict[str, str]) -> None:
    names, values = columns(table), cells(function)
    assert len(names) == len(values) and set(hints) <= set(names)
    for name, value in zip(names, values, strict=True):
        assert hints.get(name, "") in value, f"{table}.{name} gets {value}"


def test_words_are_interned_for_their_own_column() -> None:
    names = columns("python.torch_trace")
    positions = dict(re.findall(r"constexpr std::uint32_t k(\w+)Column = (\d+);", ROWS))
    assert {key: names[int(position)] for key, position in positions.items()} == INTERNED
