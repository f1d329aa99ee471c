#!/usr/bin/env python3
"""Makes PROBING=1 work for an interpreter, from a source tree: writes probing.pth.

    install_hook.py                        for the python3 that runs this
    install_hook.py --python PY            for another interpreter
    install_hook.py --library PATH         with this libprobing.so
    install_hook.py --uninstall            takes it back

A .pth file is read at every start of that interpreter. Ours costs one look at the environment
when neither PROBING nor PROBE is set.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE_NAME = "probing.pth"
FIND_SITE = "import sysconfig; print(sysconfig.get_paths()['purelib'])"


def pth_line(library: Path | None = None) -> str:
    """Starts the package when somebody wants it. Silent in any case: what is half removed must not
    print into every Python of the user, as an import that fails here would."""
    argument = repr(str(library)) if library else ""
    attempt = f"try: __import__('_probing_start').start({argument})\nexcept Exception: pass"
    return f'import os; (os.environ.get("PROBING") or os.environ.get("PROBE")) and exec({attempt!r})\n'


def pth_content(package_folder: Path, library: Path | None) -> str:
    """One line that makes the package importable, one guarded line that starts it."""
    return f"{package_folder}\n{pth_line(library)}"


def site_packages(python: str) -> Path:
    result = subprocess.run([python, "-I", "-c", FIND_SITE], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"install_hook: {python} does not run: {result.stderr.strip()}")
    return Path(result.stdout.strip())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="the interpreter (default: this one)")
    parser.add_argument("--library", type=Path, help="libprobing.so (default: that of build/release)")
    parser.add_argument("--uninstall", action="store_true")
    arguments = parser.parse_args()

    path = site_packages(arguments.python) / FILE_NAME
    if arguments.uninstall:
        path.unlink(missing_ok=True)
        print(f"removed {path}")
        return 0
    library = arguments.library.resolve() if arguments.library else None
    if library and not library.exists():
        sys.exit(f"install_hook: no {library}. Next: make build")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pth_content(ROOT / "python", library))
    except OSError as error:
        sys.exit(f"install_hook: cannot write {path}: {error.strerror}. Next: use a virtual environment")
    print(f"wrote {path}: PROBING=1 {arguments.python} … starts the probe")
    return 0


if __name__ == "__main__":
    sys.exit(main())
