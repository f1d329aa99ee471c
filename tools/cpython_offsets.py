#!/usr/bin/env python3
"""Makes the tables of offsets from the headers of CPython.

    tools/cpython_offsets.py                    writes the tables from every Python of this machine
    tools/cpython_offsets.py --check [PYTHON…]  compares them with these Pythons, or all here; 1: they differ

A small C program of offsetof() lines is compiled against the headers of an installed Python (include/ and
include/internal/, with Py_BUILD_CORE). The tables have one version of each minor release from 3.4 to 3.12;
later ones describe themselves (_Py_DebugOffsets). Written: src/cpython/measured_offsets.h, what stacks are
read from, and src/pyapi/measured_offsets.h, what the GIL is taken with. A version that is not installed
keeps its numbers.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIRST, LAST = 4, 12
READER = ROOT / "src/cpython/measured_offsets.h"
GIL = ROOT / "src/pyapi/measured_offsets.h"

Numbers = dict[str, int]


@dataclass(frozen=True)
class Field:
    name: str  # in C++
    first: int
    last: int
    value: str  # in C; "Type.member" is short for offsetof(Type, member)


def field(name: str, value: str, first: int = FIRST, last: int = LAST) -> Field:
    return Field(name, first, last, value)


RUNTIME, INTERPRETER, THREAD, CODE = "_PyRuntimeState", "PyInterpreterState", "PyThreadState", "PyCodeObject"
OLD_FRAME, FRAME, ASCII = "PyFrameObject", "_PyInterpreterFrame", "PyASCIIObject"

READER_FIELDS = [
    field("runtime.interpreters_head", f"{RUNTIME}.interpreters.head", 7),
    field("runtime.current_thread", f"{RUNTIME}.gilstate.tstate_current", 7, 11),
    field("runtime.collecting", f"{RUNTIME}.gc.collecting", 7, 8),
    field("runtime.generations", f"{RUNTIME}.gc.generations", 7, 8),
    field("interpreter.next", f"{INTERPRETER}.next"),
    field("interpreter.threads_head", f"{INTERPRETER}.tstate_head", FIRST, 10),
    field("interpreter.threads_head", f"{INTERPRETER}.threads.head", 11),
    field("interpreter.gil", f"{INTERPRETER}.ceval.gil", 12),
    field("interpreter.modules", f"{INTERPRETER}.modules", FIRST, 11),
    field("interpreter.modules", f"{INTERPRETER}.imports.modules", 12),
    field("interpreter.id", f"{INTERPRETER}.id", 7),
    field("interpreter.collecting", f"{INTERPRETER}.gc.collecting", 9),
    field("interpreter.generations", f"{INTERPRETER}.gc.generations", 9),
    field("collector.head", "sizeof(PyGC_Head)", 7),
    field("collector.generation", "sizeof(struct gc_generation)", 7),
    field("gil.last_holder", "struct _gil_runtime_state.last_holder", 12),
    field("gil.locked", "struct _gil_runtime_state.locked", 12),
    field("thread.next", f"{THREAD}.next"),
    field("thread.interpreter", f"{THREAD}.interp"),
    field("thread.frame", f"{THREAD}.frame", FIRST, 10),
    field("thread.c_frame", f"{THREAD}.cframe", 11),
    field("thread.thread_id", f"{THREAD}.thread_id"),
    field("thread.native_thread_id", f"{THREAD}.native_thread_id", 11),
    field("c_frame_current", "_PyCFrame.current_frame", 11),
    field("frame.previous", f"{OLD_FRAME}.f_back", FIRST, 10),
    field("frame.previous", f"{FRAME}.previous", 11),
    field("frame.code", f"{OLD_FRAME}.f_code", FIRST, 10),
    field("frame.code", f"{FRAME}.f_code", 11),
    field("frame.instruction", f"{OLD_FRAME}.f_lasti", FIRST, 10),
    field("frame.instruction", f"{FRAME}.prev_instr", 11),
    field("frame.owner", f"{FRAME}.owner", 11),
    field("frame.generator", f"{OLD_FRAME}.f_gen", FIRST, 10),
    field("frame.executing", f"{OLD_FRAME}.f_executing", FIRST, 9),
    field("frame.executing", f"{OLD_FRAME}.f_state", 10, 10),
    field("frame.entry", f"{FRAME}.is_entry", 11, 11),
    field("frame.locals", f"{OLD_FRAME}.f_localsplus", FIRST, 10),
    field("frame.locals", f"{FRAME}.localsplus", 11),
    field("frame.stack_count", f"{OLD_FRAME}.f_stackdepth", 10, 10),
    field("frame.stack_count", f"{FRAME}.stacktop", 11),
    field("frame.stack_pointer", f"{OLD_FRAME}.f_stacktop", FIRST, 9),
    field("frame.value_stack", f"{OLD_FRAME}.f_valuestack", 10, 10),
    field("executing_state", "FRAME_EXECUTING", 10, 10),
    field("unwinding_state", "FRAME_UNWINDING", 10, 10),
    field("code.filename", f"{CODE}.co_filename"),
    field("code.name", f"{CODE}.co_name"),
    field("code.qualified_name", f"{CODE}.co_qualname", 11),
    field("code.line_table", f"{CODE}.co_lnotab", FIRST, 9),
    field("code.line_table", f"{CODE}.co_linetable", 10),
    field("code.first_line", f"{CODE}.co_firstlineno"),
    field("code.first_traceable", f"{CODE}._co_firsttraceable", 11),
    field("code.bytecode", f"{CODE}.co_code_adaptive", 11),
    field("code.bytecode_object", f"{CODE}.co_code", FIRST, 10),
    field("code.local_names", f"{CODE}.co_varnames", FIRST, 10),
    field("code.local_names", f"{CODE}.co_localsplusnames", 11),
    field("code.local_kinds", f"{CODE}.co_localspluskinds", 11),
    field("code.cell_names", f"{CODE}.co_cellvars", FIRST, 10),
    field("code.free_names", f"{CODE}.co_freevars", FIRST, 10),
    field("code.argument_count", f"{CODE}.co_argcount"),
    field("code.keyword_count", f"{CODE}.co_kwonlyargcount"),
    field("code.flags", f"{CODE}.co_flags"),
    field("unicode.length", f"{ASCII}.length"),
    field("unicode.state", f"{ASCII}.state"),
    field("unicode.ascii_data", f"sizeof({ASCII})"),
    field("unicode.other_data", "sizeof(PyCompactUnicodeObject)"),
    field("bytes.size", "PyVarObject.ob_size"),
    field("bytes.data", "PyBytesObject.ob_sval"),
    field("object_type", "PyObject.ob_type"),
]
GIL_FIELDS = [
    field("queue_closed", f"{RUNTIME}.ceval.pending.finishing", 8, 8),
    field("breaker", f"{INTERPRETER}.ceval.eval_breaker", 9),
    field("threads_head", f"{INTERPRETER}.tstate_head", 9, 10),
    field("threads_head", f"{INTERPRETER}.threads.head", 11),
    field("modules", f"{INTERPRETER}.modules", 9, 11),
    field("modules", f"{INTERPRETER}.imports.modules", 12),
]
FIELDS = {READER: READER_FIELDS, GIL: GIL_FIELDS}

HEADERS = {
    4: ["Python.h", "frameobject.h"],
    5: ["Python.h", "frameobject.h"],
    6: ["Python.h", "frameobject.h"],
    7: ["Python.h", "frameobject.h", "internal/pystate.h", "internal/mem.h"],
    8: ["Python.h", "frameobject.h", "internal/pycore_pystate.h", "internal/pycore_pymem.h"],
    9: ["Python.h", "frameobject.h", "internal/pycore_interp.h", "internal/pycore_runtime.h"],
    10: ["Python.h", "frameobject.h", "internal/pycore_interp.h", "internal/pycore_runtime.h"],
    11: ["Python.h", "internal/pycore_frame.h", "internal/pycore_interp.h", "internal/pycore_runtime.h"],
    12: ["Python.h", "internal/pycore_frame.h", "internal/pycore_interp.h", "internal/pycore_runtime.h"],
}


def expression(value: str) -> str:
    """An expression of C."""
    match = re.fullmatch(r"((?:struct )?\w+)\.([\w.]+)", value)
    return f"offsetof({match[1]}, {match[2]})" if match else value


def fields_of(minor: int, fields: list[Field]) -> list[Field]:
    return [one for one in fields if one.first <= minor <= one.last]


def source(minor: int, fields: list[Field]) -> str:
    lines = ["#define Py_BUILD_CORE 1", "#include <stddef.h>", "#include <stdio.h>"]
    lines += [f'#include "{header}"' for header in HEADERS[minor]]
    lines += ["int main(void) {", '  printf("version %d\\n", PY_MINOR_VERSION);']
    lines += [f'  printf("{one.name} %ld\\n", (long)({expression(one.value)}));' for one in fields]
    return "\n".join([*lines, "  return 0;", "}", ""])


def measure(include: Path, minor: int, fields: list[Field]) -> Numbers:
    """What a program says that was compiled against these headers."""
    compiler = os.environ.get("CC") or shutil.which("cc") or "cc"
    wanted = fields_of(minor, fields)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "offsets")
        program.with_suffix(".c").write_text(source(minor, wanted), encoding="utf-8")
        command = [compiler, "-w", f"-I{include}", f"-I{include}/internal", "-o", str(program)]
        subprocess.run([*command, f"{program}.c"], check=True)
        lines = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.split("\n")
    found = {name: int(number) for name, _, number in (line.partition(" ") for line in lines if line)}
    if found.pop("version") != minor:
        raise SystemExit(f"{include} does not have the headers of 3.{minor}")
    return found


def headers_of(python: str) -> tuple[int, Path] | None:
    """The minor version and the headers of a Python; None when it has no table or no headers."""
    asked = "import sys, sysconfig; print(*sys.version_info[:2], sysconfig.get_paths()['include'])"
    said = subprocess.run([python, "-c", asked], capture_output=True, text=True).stdout.split(" ", 2)
    if len(said) != 3 or said[0] != "3" or not FIRST <= int(said[1]) <= LAST:
        return None
    include = Path(said[2].strip())
    return (int(said[1]), include) if (include / "Python.h").exists() else None


def pythons_here() -> Iterable[str]:
    yield from map(str, sorted(Path.home().glob(".pyenv/versions/*/bin/python")))


def render(path: Path, tables: dict[int, Numbers]) -> str:
    reader = path == READER
    kind, space = ("Offsets", "cpython") if reader else ("GilOffsets", "pyapi")
    what = "Where the fields are that a stack is read from" if reader else "Where the GIL's flags are"
    text = f"// {what}: made by tools/cpython_offsets.py, checked by\n"
    text += "// tests/integration/test_offsets.py. All numbers are bytes.\n#pragma once\n\n"
    text += '#include "cpython/offsets.h"\n\n' if reader else '#include "pyapi/gil_offsets.h"\n\n'
    text += f"// clang-format off\nnamespace probing::{space} {{\n"
    for minor, numbers in sorted(tables.items()):
        if not numbers:
            continue
        groups: dict[str, list[str]] = {}
        for name, number in numbers.items():
            group, _, member = name.rpartition(".")
            groups.setdefault(group, []).append(f".{member}~=~{number}")
        text += f"\nconstexpr {kind} Measured3{minor:02}() {{\n  {kind} o;\n"
        for group, members in groups.items():
            if group:
                text += textwrap.fill(
                    f"o.{group} = {{{', '.join(members)}}};",
                    106,
                    initial_indent="  ",
                    subsequent_indent="      ",
                )
                text += "\n"
            else:
                text += "".join(f"  o{member};\n" for member in members)
        text = text.replace("~", " ")  # no line ends between a name and its number
        text += "  return o;\n}\n"
    return text + f"\n}}  // namespace probing::{space}\n"


def parse(path: Path) -> dict[int, Numbers]:
    """The tables that are in the tree."""
    tables: dict[int, Numbers] = {}
    if not path.exists():
        return tables
    for minor, body in re.findall(
        r"Measured3(\d\d)\(\) \{\n(.*?)\n\}", path.read_text(encoding="utf-8"), re.DOTALL
    ):
        numbers = tables.setdefault(int(minor), {})
        for group, members, number in re.findall(r"o\.(\w+) = (?:\{(.*?)\}|(-?\d+));", body, re.DOTALL):
            if not members:
                numbers[group] = int(number)
            for name, value in re.findall(r"\.(\w+) = (-?\d+)", members):
                numbers[f"{group}.{name}"] = int(value)
    return tables


def check(pythons: Iterable[str]) -> int:
    """Compares the tables with these Pythons; returns how many numbers differ."""
    wrong = checked = 0
    for python in pythons:
        headers = headers_of(python)
        if headers is None:
            continue
        for path, fields in FIELDS.items():
            table = parse(path).get(headers[0], {})
            measured = measure(headers[1], headers[0], fields)
            checked += len(measured)
            for name in {**table, **measured}:
                if table.get(name) != measured.get(name):
                    wrong += 1
                    print(
                        f"{path.relative_to(ROOT)}: 3.{headers[0]} {name} is {table.get(name)}, "
                        f"{headers[1]} says {measured.get(name)}"
                    )
    print(f"cpython_offsets: {checked} numbers, {wrong} differ")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("python", nargs="*", help="interpreters; by default all below ~/.pyenv")
    arguments = parser.parse_args()
    pythons = arguments.python or list(pythons_here())
    if arguments.check:
        return 1 if check(pythons) else 0
    found = [headers for headers in map(headers_of, pythons) if headers]
    for path, fields in FIELDS.items():
        tables = parse(path)
        for minor, include in found:
            tables[minor] = measure(include, minor, fields)
        path.write_text(render(path, tables), encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {sum(map(len, tables.values()))} numbers of {len(found)} Pythons")
    return 0


if __name__ == "__main__":
    sys.exit(main())
