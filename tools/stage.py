#!/usr/bin/env python3
"""What an installation consists of, once: `make install`, `make tarball` and the wheel all use this list.

    stage.py install PREFIX     copies it below PREFIX (and $DESTDIR before that, for packagers)
    stage.py tarball            dist/probing-VERSION-linux-PROCESSOR.tar.gz

PROBING_BIN names the folder of the programs, which may be for another processor than this machine's.
`probing` finds the libraries in ../lib/probing of its own folder, and the libraries find probingd in
../../bin, so the tree works wherever it is put.
"""

from __future__ import annotations

import io
import os
import platform
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import man_pages

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(os.environ.get("PROBING_BIN", ROOT / "build/release/bin"))
DIST = ROOT / "dist"
COMPLETIONS = {
    "bash": "share/bash-completion/completions/probing",
    "zsh": "share/zsh/site-functions/_probing",
    "fish": "share/fish/vendor_completions.d/probing.fish",
}
EXECUTABLE, PLAIN = 0o755, 0o644


@dataclass(frozen=True)
class Entry:
    """A file of the installation, or a link beside another one."""

    path: str
    data: bytes = b""
    mode: int = PLAIN
    link: str = ""


def processor() -> str:
    """Of the programs, as their ELF header has it."""
    with (BIN / "probing").open("rb") as file:
        machine = int.from_bytes(file.read(20)[18:], "little")
    return {62: "x86_64", 183: "aarch64"}[machine]


def runnable() -> Path:
    """Programs that can be asked here what their commands are."""
    return BIN if processor() == platform.machine() else ROOT / "build/release/bin"


def version() -> str:
    """That of CMakeLists.txt, which everything else has it from."""
    found = re.search(r"project\(probing VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    assert found is not None
    return found[1]


def programs() -> Iterator[Entry]:
    for name in ("probing", "probingd"):
        yield Entry(f"bin/{name}", (BIN / name).read_bytes(), EXECUTABLE)
    yield Entry("bin/probe", link="probing")
    yield Entry("lib/probing/libprobing.so", (BIN / "libprobing.so").read_bytes(), EXECUTABLE)
    yield Entry("lib/probing/libprobe.so", link="libprobing.so")
    yield Entry("lib/probing/libprobing-nccl.so", (BIN / "libprobing-nccl.so").read_bytes(), EXECUTABLE)
    yield Entry("lib/probing/libduckdb.so", (BIN / "libduckdb.so").read_bytes(), EXECUTABLE)


def shared_files() -> Iterator[Entry]:
    """Manual pages, completions, the header for plug-ins."""
    for name, text in man_pages.all_pages(runnable(), version()).items():
        yield Entry(f"share/man/man1/{name}", text.encode())
    for shell, path in COMPLETIONS.items():
        command = [str(runnable() / "probing"), "completion", shell]
        yield Entry(path, subprocess.run(command, check=True, capture_output=True).stdout)
    yield Entry("include/probing/probing.h", (ROOT / "include/probing/probing.h").read_bytes())


def python_files() -> Iterator[Entry]:
    """The package and its start hook, by their names below a folder of sys.path."""
    paths = sorted([*ROOT.glob("python/probing/*.py*"), ROOT / "python/probing/py.typed"])
    for path in [*paths, ROOT / "python/_probing_start.py"]:
        if path.suffix in {".py", ".pyi", ".typed"}:
            yield Entry(str(path.relative_to(ROOT / "python")), path.read_bytes())


def licenses() -> Iterator[Entry]:
    yield Entry("LICENSE", (ROOT / "LICENSE").read_bytes())
    for path in sorted(ROOT.glob("tools/licenses/*.txt")):
        yield Entry(f"licenses/{path.name}", path.read_bytes())


def tree() -> Iterator[Entry]:
    """All of it, below a prefix."""
    yield from programs()
    yield from shared_files()
    for part, folder in ((python_files(), "lib/probing/python"), (licenses(), "share/doc/probing")):
        for entry in part:
            yield Entry(f"{folder}/{entry.path}", entry.data, entry.mode)


def install(prefix: str) -> None:
    root = Path(os.environ.get("DESTDIR", "") + str(Path(prefix).absolute()))
    for entry in tree():
        path = root / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        # A running program's file cannot be written to, but its name can be given to another one.
        path.unlink(missing_ok=True)
        if entry.link:
            path.symlink_to(entry.link)
        else:
            path.write_bytes(entry.data)
            path.chmod(entry.mode)
    print(f"installed below {root}: {root}/bin/probing --help")


def tarball() -> Path:
    name = f"probing-{version()}-linux-{processor()}"
    path = DIST / f"{name}.tar.gz"
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for entry in tree():
            info = tarfile.TarInfo(f"{name}/{entry.path}")
            info.mode, info.size, info.mtime = entry.mode, len(entry.data), source_time()
            if entry.link:
                info.type, info.linkname, info.size = tarfile.SYMTYPE, entry.link, 0
            archive.addfile(info, io.BytesIO(entry.data))
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    return path


def source_time() -> int:
    """SOURCE_DATE_EPOCH, or when the last commit was made: the same sources give the same bytes."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    command = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 else 1577836800


def main() -> int:
    match sys.argv[1:]:
        case ["install", prefix]:
            install(prefix)
        case ["tarball"]:
            tarball()
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
