#!/usr/bin/env python3
"""Python 3.4.10 and 3.5.10 as targets for the tests, in build/pythons/old.

    tools/old_pythons.py [3.4] [3.5]

No registry has these interpreters, but a wheel of panda3d carries each: `deploy-stub`, a program that is
CPython with its functions exported, and beside it CPython's modules in C. tools/old_python.c gives that
program the main() of an interpreter. Its standard library is that of a Python 3.6 of this machine (pyenv's),
made to fit: f-strings are written out (bpc-f2format), what is newer than 3.4 is taken out. 3.4 has no regular
expressions then, since those of 3.6 need another _sre. How tests use them:

    PROBING_PYTHONS=build/pythons/old/3.5/bin/python3 pytest tests/integration/test_stacks.py -k 3.5
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build/pythons/old"
PANDA = "panda3d==1.10.16"
LEFT_OUT = (
    "site-packages",
    "test",
    "tests",
    "lib-dynload",
    "lib2to3",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
)
F_STRING = re.compile(r"""(?<![a-zA-Z_])[fF][rR]?['"]""")

# file → (what is there, what takes its place); a pair with 3.4 alone has "3.4" as its third part.
ASYNC = "async def _c(): pass\n_c = _c()\nCoroutineType = type(_c)\n_c.close()  # Prevent ResourceWarning\n"
CORO = "async def _coro(): pass\n_coro = _coro()\ncoroutine = type(_coro)\n"
CORO += "_coro.close()  # Prevent ResourceWarning\n"
EDITS: dict[str, list[tuple[str, ...]]] = {
    "_collections_abc.py": [
        (
            "async def _ag(): yield\n_ag = _ag()\nasync_generator = type(_ag)\ndel _ag\n",
            "class async_generator: pass\n",
        ),
        (f"{CORO}del _coro\n", "class coroutine: pass\n", "3.4"),
        ("    async def ", "    def ", "3.4"),
        ("await self.", "self.", "3.4"),
    ],
    "types.py": [
        (
            "async def _ag():\n    yield\n_ag = _ag()\nAsyncGeneratorType = type(_ag)\n",
            "class AsyncGeneratorType: pass\n",
        ),
        (ASYNC, "class CoroutineType: pass\n_c = None\n", "3.4"),
    ],
    "os.py": [("sys.getfilesystemencodeerrors()", "'surrogateescape'")],
    "operator.py": [
        ("return a @ b", "return a.__matmul__(b)", "3.4"),
        ("a @= b", "a = a.__imatmul__(b)", "3.4"),
    ],
    "functools.py": [("(*self.args, *args, **newkeywords)", "(*(self.args + args), **newkeywords)", "3.4")],
    "weakref.py": [
        ("     ReferenceType,\n     _remove_dead_weakref)", "     ReferenceType)", "3.4"),
        (
            "from _weakrefset",
            "def _remove_dead_weakref(d, k):\n    d.pop(k, None)\n\nfrom _weakrefset",
            "3.4",
        ),
    ],
}
NO_EXPRESSIONS = """
A = ASCII = I = IGNORECASE = L = LOCALE = U = UNICODE = M = MULTILINE = S = DOTALL = X = VERBOSE = 0
error = ValueError
class _Pattern:
    def __init__(self, pattern): self.pattern = pattern
    def match(self, *rest): return None
    search = fullmatch = match
    def sub(self, to, text, *rest): return text
    def findall(self, text, *rest): return []
    def finditer(self, text, *rest): return iter(())
    def split(self, text, *rest): return [text]
def compile(pattern, flags=0): return pattern if isinstance(pattern, _Pattern) else _Pattern(pattern)
def escape(text): return text
def match(pattern, text, flags=0): return None
search = fullmatch = match
def sub(pattern, to, text, *rest, **more): return text
def split(pattern, text, *rest, **more): return [text]
def findall(pattern, text, *rest, **more): return []
def finditer(pattern, text, *rest, **more): return iter(())
"""


def say(text: str) -> None:
    print(f"pythons: {text}", flush=True)


def find_library() -> Path:
    found = sorted(Path.home().glob(".pyenv/versions/3.6.*/lib/python3.6"))
    if not found:
        raise SystemExit(
            "pythons: no Python 3.6 of pyenv here, whose standard library 3.4 and 3.5 would take"
        )
    return found[-1]


def fetch(version: str, folder: Path) -> None:
    """The interpreter and its modules, from the wheel."""
    tag = version.replace(".", "")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary",
        ":all:",
        "-d",
        str(folder),
    ]
    of = [
        "--implementation",
        "cp",
        "--python-version",
        tag,
        "--abi",
        f"cp{tag}m",
        "--platform",
        "manylinux1_x86_64",
    ]
    say(f"fetching Python {version} (50 MB)")
    subprocess.run([*pip, *of, PANDA], check=True)
    wheel = next(folder.glob("*.whl"))
    shutil.unpack_archive(wheel, folder / "wheel", "zip")


def make_library(version: str, to: Path, tools: Path) -> None:
    shutil.copytree(find_library(), to, ignore=shutil.ignore_patterns(*LEFT_OUT, "__pycache__", "config-*"))
    newer = [path for path in to.rglob("*.py") if F_STRING.search(path.read_text(errors="replace"))]
    subprocess.run([tools / "bin/f2format", "-na", "-q", *newer], check=True, stdout=subprocess.DEVNULL)
    for name, edits in EDITS.items():
        path = to / name
        text = path.read_text()
        for old, new, *only in edits:
            if not only or version in only:
                text = text.replace(old, new)
        path.write_text(text)
    if version == "3.4":
        (to / "re.py").write_text(NO_EXPRESSIONS)
        for name in ("dis.py", "shutil.py"):  # attributes that were read-only then
            path = to / name
            path.write_text(re.sub(r"^_\w+\.\w+\.__doc__ = .*\n", "", path.read_text(), flags=re.MULTILINE))


def make(version: str) -> None:
    root = FOLDER / version
    python = root / "bin/python3"
    if not python.exists():
        shutil.rmtree(root, ignore_errors=True)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            fetch(version, folder)
            subprocess.run([sys.executable, "-m", "venv", folder / "tools"], check=True)
            pip = [folder / "tools/bin/python", "-m", "pip", "install", "--quiet", "bpc-f2format==0.8.7"]
            subprocess.run(pip, check=True)
            make_library(version, root / "lib", folder / "tools")
            shutil.copytree(folder / "wheel/deploy_libs", root / "modules")
            (root / "bin").mkdir()
            shutil.copy(folder / "wheel/panda3d_tools/deploy-stub", root / f"bin/python{version}")
        (root / f"bin/python{version}").chmod(0o755)
        launcher = root / "old_python.so"
        build = ["gcc", "-O1", "-shared", "-fPIC", "-o", launcher, ROOT / "tools/old_python.c", "-ldl"]
        subprocess.run(build, check=True)
        python.write_text(
            f"#!/bin/sh\nOLD_PYTHON={python} OLD_PYTHON_PATH={root}/lib:{root}/modules LD_PRELOAD={launcher} "
            f'exec {root}/bin/python{version} "$@"\n'
        )
        python.chmod(0o755)
    subprocess.run([python, "-c", "import sys; print('pythons:', sys.version.split()[0])"], check=True)


if __name__ == "__main__":
    for each in sys.argv[1:] or ["3.4", "3.5"]:
        make(each)
