#!/usr/bin/env python3
"""Tries other versions of PyTorch: torch_matrix.py [VERSION…] [argument of pytest…].

    make torch-matrix TORCH="2.4.1 2.15.0"

The wheels of PyPI are for CUDA and pull gigabytes with them. Here comes torch alone (0.8 GB each, in
build/torch-matrix), with CUDA's small runtime; of the big libraries, which nothing calls on a machine without
a GPU, stand-ins of their names satisfy the loader. The tests find a version where they look for the daily
one: it is mounted there, in a namespace of their own (root).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build/torch-matrix"
DAILY = ROOT / "build/torch-venv"
VERSIONS = ["2.4.1", "2.6.0", "2.9.1", "2.12.1", "2.15.0"]
PURE = ["filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "setuptools"]
NVIDIA_HAS = re.compile(
    r"^Requires-Dist: (nvidia-(?:cuda-runtime|cuda-cupti|nvtx)\S*) ?\(?(==[\w.]+)", re.MULTILINE
)
# Steps, modules and backward; collectives and torch's recorder; tensors; the profiler; how it leaves.
TESTS = (
    *("test_torch.py", "test_torch_tracing.py", "test_torch_steps.py", "test_torch_leaving.py"),
    *("test_tensors.py", "test_gloo.py", "test_profile_live.py"),
)
# What a version has not got, so that the job of a test, or the command, says so.
SINCE = {
    "test_profile_live.py": (2, 6),  # `profile` refuses older ones by name
    "test_tensors.py": (2, 5),  # torch.nn.Buffer
}


def run(*command: object, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], text=True, **more)  # type: ignore[call-overload]


def packages(venv: Path) -> Path:
    return next(venv.glob("lib/python3*/site-packages"))


def python311() -> str:
    asked = "import sys; print(sys._base_executable)"
    return run(DAILY / "bin/python", "-c", asked, check=True, capture_output=True).stdout.strip()


def needed(library: Path) -> list[str]:
    dynamic = run("readelf", "--dynamic", "--wide", library, check=True, capture_output=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*?)\]", dynamic)


def symbols(library: Path, which: str) -> dict[str, str]:
    """Name → kind (FUNC, OBJECT, NOTYPE) of those that a library defines, or that it asks others for."""
    found = {}
    for line in run("readelf", "--dyn-syms", "--wide", library, capture_output=True).stdout.splitlines():
        fields = line.split()
        if len(fields) > 7 and fields[4] == "GLOBAL" and (fields[6] == "UND") == (which == "asked"):
            found[fields[7].partition("@")[0]] = fields[3]
    return found


def add_stand_ins(site: Path) -> list[str]:
    """Libraries of the names that torch's own ask for and nobody has, with functions that fail."""
    own = [path for path in (site / "torch/lib").iterdir() if ".so" in path.name]
    here = [*own, *site.glob("nvidia/**/*.so*")]
    system = dict(re.findall(r"\t(\S+) .*=> (\S+)", run("ldconfig", "-p", capture_output=True).stdout))
    names = {name for library in own for name in needed(library)}
    missing = sorted(names - {path.name for path in here} - set(system))
    has: set[str] = set()
    for library in [*here, *(Path(system[name]) for name in names if name in system)]:
        has |= set(symbols(library, "defined"))
    asked: dict[str, str] = {}
    for library in own:
        asked |= {name: kind for name, kind in symbols(library, "asked").items() if name not in has}
    code = "".join(
        f"char {name}[64];\n" if kind == "OBJECT" else f"int {name}(void) {{ return 1; }}\n"
        for name, kind in sorted(asked.items())
        if not name.startswith(("_Z", "Py", "_Py"))
    )
    # Of a library with such a name the loader expects versions, so the functions are in another one.
    folder = site / "torch/lib"
    build = ["gcc", "-w", "-fno-builtin", "-shared", "-fPIC", "-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed"]
    functions = folder / "libprobing_stand_ins.so"
    run(*build, "-o", functions, f"-Wl,-soname,{functions.name}", "-x", "c", "-", input=code, check=True)
    for name in missing:
        run(*build, "-o", folder / name, f"-Wl,-soname,{name}", functions, check=True)
    return missing


def install(version: str) -> Path:
    venv = FOLDER / version
    if (venv / "whole").exists():
        return venv
    print(f"torch-matrix: installing torch {version} without CUDA's big libraries", flush=True)
    run(python311(), "-m", "venv", "--clear", venv, check=True)
    pip = [
        venv / "bin/python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    daily = (ROOT / "tests/integration/torch_requirements.txt").read_text()
    run(*pip, *PURE, *re.findall(r"^numpy==\S+", daily, re.MULTILINE), check=True)
    run(*pip, "--no-deps", f"torch=={version}", check=True)
    site = packages(venv)
    metadata = next(site.glob("torch-*.dist-info/METADATA")).read_text()
    small = [name + pinned for name, pinned in NVIDIA_HAS.findall(metadata)]
    if small:
        run(*pip, "--no-deps", *small, check=True)
    missing = add_stand_ins(site)
    print(f"torch-matrix: {version}: stand-ins for {', '.join(missing) or 'nothing'}", flush=True)
    (venv / "whole").touch()
    return venv


def tests_of(version: str) -> list[Path]:
    minor = tuple(int(part) for part in version.split(".")[:2])
    return [ROOT / "tests/integration" / name for name in TESTS if minor >= SINCE.get(name, (0, 0))]


def try_version(version: str, options: list[str]) -> bool:
    venv = install(version)
    code = "import torch; print(torch.__version__, float(torch.ones(2, requires_grad=True).sum()))"
    said = run(venv / "bin/python", "-c", code, capture_output=True)
    if said.returncode != 0:
        print(f"torch-matrix: {version} cannot be imported here: {said.stderr.strip().splitlines()[-1:]}")
        return False
    junit = ROOT / f"build/test-results/torch-{version}.xml"
    mount = f'mount --bind {venv} "$(realpath {DAILY})" && exec "$@"'
    apart = [ROOT / "tools/apart.sh", "unshare", "--mount", "sh", "-c", mount, "sh"]
    pytest = [ROOT / "build/venv/bin/python", "-m", "pytest", "-q"]
    done = run(*apart, *pytest, f"--junitxml={junit}", *options, *tests_of(version), cwd=ROOT)
    return done.returncode == 0


def main() -> int:
    if os.getuid() != 0:
        sys.exit("torch-matrix: only root can mount a version where the tests look for it")
    versions = [word for word in sys.argv[1:] if re.fullmatch(r"2(\.\d+)+", word)]
    options = [word for word in sys.argv[1:] if word not in versions]
    versions = versions or VERSIONS
    red = [version for version in versions if not try_version(version, options)]
    print(f"torch-matrix: tried {', '.join(versions)}; red: {', '.join(red) or 'none'}")
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())
