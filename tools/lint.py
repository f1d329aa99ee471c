#!/usr/bin/env python3
"""All style checks in one go: ruff, clang-format, the dependency rule, names of machines, the web page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = Path(sys.executable).parent

# A committed file works everywhere, so it names no package registry and nobody's home.
# (Written so that this file does not find itself; a path below /proc/PID/root is another thing.)
REGISTRIES = ("pypi", "pythonhosted", "npmjs", "debian", "docker", "ghcr", "quay", "crates")
REGISTRY_HOST = re.compile(r"\b(?:[\w-]+\.)*(?:" + "|".join(REGISTRIES) + r")\.(?:org|com|io)\b")
HOME_PATH = re.compile(r"(?<![\w}>)%*$\]])/(?:root|home)/[\w.]")


def committed_files(*patterns: str) -> list[str]:
    command = ["git", "ls-files", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return [name for name in names if (ROOT / name).is_file()]


def run(title: str, command: list[str]) -> bool:
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    report(title, result.returncode == 0, result.stdout + result.stderr)
    return result.returncode == 0


def report(title: str, passed: bool, output: str) -> None:
    print(f"{'ok  ' if passed else 'FAIL'} {title}")
    if not passed:
        print(output.rstrip())


def check_machine_names() -> bool:
    found = []
    for name in committed_files():
        try:
            lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, 1):
            for match in (*REGISTRY_HOST.finditer(line), *HOME_PATH.finditer(line)):
                found.append(f"{name}:{number}: {match.group()}")
    report("no registry host, no home path", not found, "\n".join(found))
    return not found


# Text of a target must never become HTML or code, and the page loads nothing from elsewhere.
FORBIDDEN_IN_PAGE = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc|\beval\(|new Function\b"
    r"|\sstyle=|\son\w+=\"|https?://(?!www\.w3\.org/)"
    r"|\bas any\b|[:<,] any\b|@ts-(?:ignore|nocheck|expect-error)"
)


def check_web_page() -> bool:
    found = [
        f"{name}:{number}: {match.group()}"
        for name in committed_files("web/src/*.ts", "web/*.html")
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1)
        for match in FORBIDDEN_IN_PAGE.finditer(line)
    ]
    report(
        "web page: no HTML text, nothing inline, nothing from elsewhere, no any", not found, "\n".join(found)
    )
    return not found


def check_web_types() -> bool:
    compiler = ROOT / "web/node_modules/.bin/tsc"
    title = "web page: types (tsc)"
    if not compiler.is_file():
        report(title, False, f"{compiler.relative_to(ROOT)} is missing. Next: make deps")
        return False
    return run(title, [str(compiler), "--project", "web", "--pretty", "false"])


def main() -> int:
    cxx = committed_files("*.h", "*.cc", "*.c")
    results = [
        run("ruff check", [str(TOOLS / "ruff"), "check", "--quiet", "."]),
        run("ruff format", [str(TOOLS / "ruff"), "format", "--check", "--quiet", "--diff", "."]),
        run("clang-format", [str(TOOLS / "clang-format"), "--dry-run", "--Werror", *cxx]),
        run("check_layers", [sys.executable, "tools/check_layers.py"]),
        run("contract: types of the page", [sys.executable, "tools/contract.py", "--check"]),
        run("check_fuzzers", [sys.executable, "tools/check_fuzzers.py"]),
        run("mutants: every text and test is there", [sys.executable, "tools/mutants.py", "--check"]),
        check_machine_names(),
        check_web_page(),
        check_web_types(),
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
