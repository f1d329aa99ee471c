#!/usr/bin/env python3
"""Packs probing-VERSION-py3-none-TAG.whl, one file for every Python 3 on Linux with one processor.

    make_wheel.py [FOLDER]     into FOLDER (dist); the programs of PROBING_BIN may be for another processor

Nothing in it is compiled against a Python, so no build backend is needed: a wheel is a zip with a list
of its files. auditwheel says how old a glibc may be, and that becomes the tag; what would need more
than glibc and libstdc++ is refused. The same sources give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path

import install_hook
import stage
from stage import DIST, EXECUTABLE, PLAIN, ROOT, Entry

ALIASES = {"manylinux_2_17": "manylinux2014", "manylinux_2_12": "manylinux2010"}  # older names
# A wheel has no links. $0 is a path, since somebody found this file; beside it is the program.
PROBE_SCRIPT = b'#!/bin/sh\nexec "${0%/*}/probing" --as-probe "$@"\n'
# pip removes a folder with the last file that was in it, and leaves those that had only folders.
FOLDER_MARK = b"So that pip removes this folder, too, when it uninstalls probing.\n"
ALWAYS_THERE = {"bin", "include", "lib"}  # in an environment
METADATA = """\
Metadata-Version: 2.1
Name: probing
Version: {version}
Summary: Attach to a running Python or PyTorch job and see why it hangs, slows down or leaks
License: Apache-2.0
Keywords: profiler,debugger,pytorch,training,observability
Classifier: Environment :: Console
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Software Development :: Debuggers
Classifier: Topic :: System :: Monitoring
Requires-Python: >=3.6
Description-Content-Type: text/markdown
License-File: LICENSE
{more}
{readme}"""


def entries(version: str) -> list[Entry]:
    """All files by their names in the wheel, without the list of them."""
    data, info = f"probing-{version}.data", f"probing-{version}.dist-info"
    found = [*stage.python_files(), Entry(install_hook.FILE_NAME, install_hook.pth_line().encode())]
    real = {entry.path: entry for entry in stage.programs()}
    for path, entry in real.items():
        folder = f"{data}/scripts" if path.startswith("bin/") else f"{data}/data/{Path(path).parent}"
        name = f"{folder}/{Path(path).name}"
        if path == "bin/probe":
            found.append(Entry(name, PROBE_SCRIPT, EXECUTABLE))
        else:
            original = real[str(Path(path).parent / entry.link)] if entry.link else entry
            found.append(Entry(name, original.data, original.mode))
    shared = list(stage.shared_files())
    found += [Entry(f"{data}/data/{e.path}", e.data, e.mode) for e in shared]
    found += [Entry(f"{data}/data/{folder}/.probing", FOLDER_MARK) for folder in bare_folders(shared)]
    texts = list(stage.licenses())
    found += [Entry(f"{info}/licenses/{e.path}", e.data) for e in texts]
    more = "".join(f"License-File: {e.path}\n" for e in texts if e.path != "LICENSE")
    readme = (ROOT / "README.md").read_text()
    found.append(
        Entry(f"{info}/METADATA", METADATA.format(version=version, more=more, readme=readme).encode())
    )
    return found


def bare_folders(files: Iterable[Entry]) -> list[str]:
    """Those that files are below of, but none is in."""
    parents = {Path(entry.path).parent for entry in files}
    above = {folder for parent in parents for folder in parent.parents if folder.name}
    return sorted(str(folder) for folder in above - parents if str(folder) not in ALWAYS_THERE)


def write(path: Path, files: Iterable[Entry], version: str, tag: str, compression: int) -> None:
    info = f"probing-{version}.dist-info"
    tags = "".join(f"Tag: py3-none-{each}\n" for each in tag.split("."))
    wheel = f"Wheel-Version: 1.0\nGenerator: probing tools/make_wheel.py\nRoot-Is-Purelib: false\n{tags}"
    all_files = [*files, Entry(f"{info}/WHEEL", wheel.encode())]
    record = "".join(f"{entry.path},{digest(entry.data)},{len(entry.data)}\n" for entry in all_files)
    record += f"{info}/RECORD,,\n"
    date = time.gmtime(max(stage.source_time(), 315532800))[:6]  # zip begins in 1980
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with zipfile.ZipFile(path, "w", compression, compresslevel=6) as archive:
        for entry in [*all_files, Entry(f"{info}/RECORD", record.encode())]:
            member = zipfile.ZipInfo(entry.path, date)
            member.external_attr = (0o100000 | (EXECUTABLE if entry.mode == EXECUTABLE else PLAIN)) << 16
            member.compress_type = compression
            archive.writestr(member, entry.data)


def digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def audit(path: Path) -> str:
    """The oldest platform that has what the programs in this wheel need."""
    command = [sys.executable, "-m", "auditwheel", "show", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r'consistent with\s+the\s+following\s+platform\s+tag:\s+"(\w+)"', done.stdout)
    if done.returncode != 0 or found is None or not found[1].startswith("manylinux"):
        sys.exit(f"make_wheel: auditwheel does not accept {path.name}:\n{done.stdout}{done.stderr}")
    return found[1]


def main() -> int:
    if not (stage.BIN / "probing").exists():
        sys.exit(f"make_wheel: no {stage.BIN}/probing. Next: make build")
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DIST
    version = stage.version()
    files = entries(version)
    processor = stage.processor()
    draft = folder / f"probing-{version}-py3-none-linux_{processor}.whl"
    write(draft, files, version, f"linux_{processor}", zipfile.ZIP_STORED)
    platform = audit(draft)
    alias = ALIASES.get(platform.removesuffix(f"_{processor}"))
    tag = f"{platform}.{alias}_{processor}" if alias else platform
    for old in folder.glob(f"probing-{version}-*_{processor}.whl"):  # and the draft
        old.unlink()
    path = folder / f"probing-{version}-py3-none-{tag}.whl"
    write(path, files, version, tag, zipfile.ZIP_DEFLATED)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, {len(files) + 2} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
