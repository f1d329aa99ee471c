"""Installations of the wheel: virtual environments, and what is in them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import harness
from harness import Cli

MATRIX = os.environ.get("PROBING_WHEEL_MATRIX") == "1"  # `make wheel-test`


def usable_pythons() -> list[str]:
    """Versions a wheel is installed for: 3.8 and newer. Without the matrix, the oldest and the newest."""
    found = [v for v in harness.python_ids() if harness.version_of(v) >= (3, 8)]
    if MATRIX:
        return found
    found = [v for v in found if not harness.is_unpacked(v)]
    return sorted({found[0], found[-1]}, key=harness.version_of)


class Venv:
    """An interpreter of its own. One that is only unpacked has no venv: a folder on its path instead."""

    def __init__(self, version: str, folder: Path) -> None:
        self.version = version
        self.folder = folder
        original = harness.pythons()[version]
        self.unpacked = harness.is_unpacked(version)
        self.python = original if self.unpacked else folder / "bin/python"
        if self.unpacked:
            folder.mkdir()
        else:
            options = [] if MATRIX else ["--without-pip"]
            subprocess.run([str(original), "-m", "venv", *options, str(folder)], check=True)

    @property
    def probing(self) -> Cli:
        return Cli(self.folder / "bin")

    def pip(self, *arguments: str) -> None:
        # The pip of the environment is what a user has; ours in its place saves the quick form seconds.
        own = [str(self.python), "-m", "pip"]
        ours = [sys.executable, "-m", "pip", "--python", str(self.python)]
        pip = own if MATRIX and not self.unpacked else ours
        done = subprocess.run(
            [*pip, "--disable-pip-version-check", *arguments], capture_output=True, text=True
        )
        assert done.returncode == 0, f"{pip} {arguments}: {done.stdout}{done.stderr}"

    def install(self, wheel: Path) -> None:
        if self.unpacked:
            # Not --target, with which pip leaves out what a wheel has in lib/.
            command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
            subprocess.run([*command, "--prefix", str(self.folder), str(wheel)], check=True)
        else:
            self.pip("install", "--no-index", str(wheel))

    def uninstall(self) -> None:
        self.pip("uninstall", "-y", "probing")

    def run(self, code: str, **environment: str) -> str:
        """What a program in this environment prints; its .pth files are read before."""
        if self.unpacked:
            packages = str(next(self.folder.glob("lib/python*/site-packages")))
            environment["PYTHONPATH"] = packages
            code = f"import site; site.addsitedir({packages!r})\n{code}"
        done = subprocess.run(
            [str(self.python), "-c", code],
            env=harness.clean_environment(**environment),
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def files(self) -> set[str]:
        """Everything that is there, folders too, but not what Python compiles for itself."""
        found = (path.relative_to(self.folder) for path in self.folder.rglob("*"))
        return {str(path) for path in found if "__pycache__" not in path.parts}
