"""Exits 0 when every `name==version` of a requirements file is installed in this Python."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path


def is_installed(pin: str) -> bool:
    name, _, version = pin.partition("==")
    name = name.partition("[")[0]  # of ray[train]
    try:
        return metadata.version(name).partition("+")[0] == version  # torch has 2.13.0+cpu
    except metadata.PackageNotFoundError:
        return False


def main(requirements: Path) -> int:
    lines = (line.split("#")[0].strip() for line in requirements.read_text().splitlines())
    pins = [line for line in lines if "==" in line]
    return 0 if all(is_installed(pin) for pin in pins) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
