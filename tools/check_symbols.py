#!/usr/bin/env python3
"""Checks that a library of ours can be loaded into anybody's process: check_symbols.py PATH…

libprobing.so and libprobing-nccl.so may export only what their version script lists, need no glibc newer
than 2.17 and no library but glibc's, must be unloadable, relocatable without touching their text, and small.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION_SCRIPT = ROOT / "include/probing/probing.map"
PLUGIN_SCRIPT = ROOT / "src/nccl/exports.map"
PLUGIN = "libprobing-nccl.so"
MAX_GLIBC = (2, 17)
MAX_SIZE_BYTES = 3 << 20
NEEDED_ALLOWED = re.compile(r"(libc\.so\.6|lib(pthread|dl|m|rt)\.so\.\d|ld-linux-[\w-]+\.so\.\d)")


def readelf(path: Path, *options: str) -> str:
    command = ["readelf", "--wide", *options, str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def listed_exports(script: Path) -> set[str]:
    """Names between `global:` and `local:` of a linker version script."""
    text = re.sub(r"/\*.*?\*/|#[^\n]*", "", script.read_text(), flags=re.DOTALL)
    names: set[str] = set()
    for section in re.findall(r"global:(.*?)(?:local:|\})", text, flags=re.DOTALL):
        names.update(name.strip() for name in section.split(";") if name.strip())
    return names


def exported_symbols(dyn_syms: str) -> list[tuple[str, str]]:
    """(name, binding) of every defined dynamic symbol that others can see."""
    found = []
    for line in dyn_syms.splitlines():
        fields = line.split()
        # Num: Value Size Type Bind Vis Ndx Name
        if len(fields) < 8 or not fields[0].rstrip(":").isdigit():
            continue
        binding, visibility, index, name = fields[4], fields[5], fields[6], fields[7]
        if index != "UND" and binding != "LOCAL" and visibility in {"DEFAULT", "PROTECTED"}:
            found.append((name.split("@")[0], binding))
    return found


def check(path: Path) -> list[str]:
    errors: list[str] = []
    exports = exported_symbols(readelf(path, "--dyn-syms"))
    dynamic = readelf(path, "--dynamic")
    segments = readelf(path, "--segments")

    script = PLUGIN_SCRIPT if path.name == PLUGIN else VERSION_SCRIPT
    listed = listed_exports(script) if script.exists() else set()
    for name, binding in exports:
        if name not in listed and not (script == VERSION_SCRIPT and name.startswith("probing_")):
            errors.append(f"exports {name}, which is not in {script.relative_to(ROOT)}")
        if binding == "UNIQUE":
            errors.append(f"{name} is STB_GNU_UNIQUE: the library could never be unloaded")

    versions = {
        tuple(map(int, v.split(".")))
        for v in re.findall(r"GLIBC_(\d[\d.]*)", readelf(path, "--version-info"))
    }
    newest = max(versions, default=(0, 0))
    if newest[:2] > MAX_GLIBC:
        errors.append(f"needs GLIBC_{'.'.join(map(str, newest))}; at most {'.'.join(map(str, MAX_GLIBC))}")

    needed = re.findall(r"\(NEEDED\).*\[(.*?)\]", dynamic)
    errors += [f"needs {name}" for name in needed if not NEEDED_ALLOWED.fullmatch(name)]
    if "TEXTREL" in dynamic:
        errors.append("has text relocations")
    # Type Offset VirtAddr PhysAddr FileSiz MemSiz Flg Align
    stack = next((line.split() for line in segments.splitlines() if "GNU_STACK" in line), None)
    if stack is None or "E" in "".join(stack[6:-1]):
        errors.append("asks for an executable stack")
    size = path.stat().st_size
    if size > MAX_SIZE_BYTES:
        errors.append(f"is {size:,} bytes; at most {MAX_SIZE_BYTES:,}")

    glibc = ".".join(map(str, newest))
    print(f"{path.name}: {size:,} bytes, GLIBC {glibc}, {len(exports)} exports, needs {', '.join(needed)}")
    return errors


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    failed = False
    for path in map(Path, sys.argv[1:]):
        if not path.exists():
            print(f"check_symbols: {path} does not exist: run `make build` first")
            return 1
        errors = check(path)
        for error in errors:
            print(f"{path.name}: {error}")
        failed = failed or bool(errors)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
