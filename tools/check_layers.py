#!/usr/bin/env python3
"""Checks the dependency rule: every #include and every CMake DEPS edge must be in layers.toml.

Also: edges in the table that no #include needs, headers and words (names of registers and processors)
reserved for one folder, exceptions where none may be, and a README of at most 30 lines in each folder of
src/.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_README_LINES = 30
EVERYBODY_USES = {"base", "probing"}  # probing/: the C ABI in include/

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
EXCEPTION_WORD = re.compile(r"\b(throw|try|catch)\b")
CMAKE_LIBRARY = re.compile(r"probing_library\(\s*(\w+)([^)]*)\)")

Table = dict[str, dict[str, list[str]]]


def parse_toml(text: str) -> Table:
    """layers.toml as a table. The fallback reads just what that file uses: name = [strings]."""
    try:
        import tomllib

        return tomllib.loads(text)
    except ImportError:
        table: Table = {}
        section: dict[str, list[str]] = {}
        for line in (line.split(" #")[0].strip() for line in text.splitlines()):
            if line.startswith("["):
                section = table.setdefault(line.strip("[]"), {})
            elif "=" in line and not line.startswith("#"):
                key, _, value = line.partition("=")
                section[key.strip().strip('"')] = ast.literal_eval(value.strip())
        return table


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def blank(match: re.Match[str]) -> str:
    return "\n" * match.group().count("\n")


class Checker:
    def __init__(self, source: Path, table: Table) -> None:
        self.source = source
        self.uses = table["uses"]
        self.only = table["only"]
        self.words = {
            owner: re.compile(rf"\b({'|'.join(map(re.escape, words))})\b")
            for owner, words in table.get("words", {}).items()
        }
        self.included: set[tuple[str, str]] = set()
        self.may_throw = set(table["exceptions"]["allowed"])
        self.errors: list[str] = []
        self.edges = 0

    def error(self, path: Path, line: int, message: str) -> None:
        self.errors.append(f"{path.relative_to(self.source.parent)}:{line}: {message}")

    def check_edge(self, path: Path, line: int, folder: str, other: str) -> None:
        self.edges += 1
        if other != folder and other not in EVERYBODY_USES and other not in self.uses[folder]:
            self.error(path, line, f"{folder} may not use {other} (tools/layers.toml)")

    def check_code(self, path: Path, folder: str) -> None:
        text = path.read_text(encoding="utf-8")
        for match in INCLUDE.finditer(text):
            bracket, header = match.groups()
            line = line_of(text, match.start())
            for prefix, owners in self.only.items():
                if header.startswith(prefix) and folder not in owners:
                    allowed = "only in " + ", ".join(owners) if owners else "nowhere"
                    self.error(path, line, f"<{header}> is allowed {allowed}")
            if bracket == '"':
                if "/" not in header:
                    self.error(path, line, f'"{header}": write paths from src/')
                else:
                    self.included.add((folder, header.split("/")[0]))
                    self.check_edge(path, line, folder, header.split("/")[0])
        for owner, words in self.words.items():
            for match in words.finditer(text) if folder != owner else ():
                self.error(
                    path, line_of(text, match.start()), f"'{match.group()}' is allowed only in {owner}"
                )
        if folder in self.may_throw or path.stem.endswith(("_test", "_fuzzer", "_benchmark")):
            return
        code = NOISE.sub(blank, text)
        for match in EXCEPTION_WORD.finditer(code):
            self.error(
                path, line_of(code, match.start()), f"'{match.group()}' in {folder}: no exceptions here"
            )

    def check_cmake(self, path: Path, folder: str) -> None:
        text = path.read_text(encoding="utf-8")
        for match in CMAKE_LIBRARY.finditer(text):
            name, rest = match.group(1), match.group(2).split()
            line = line_of(text, match.start())
            if name != folder:
                self.error(path, line, f"target {name} in folder {folder}: they share one name")
            if "EXCEPTIONS" in rest and folder not in self.may_throw:
                self.error(path, line, f"EXCEPTIONS in {folder}: not allowed there")
            for dep in rest[rest.index("DEPS") + 1 :] if "DEPS" in rest else []:
                if dep in self.uses:
                    self.check_edge(path, line, folder, dep)

    def check_folder(self, path: Path) -> None:
        folder = path.name
        if folder not in self.uses:
            self.error(path, 1, f"folder {folder} is not in tools/layers.toml")
            return
        readme = path / "README.md"
        if not readme.exists():
            self.error(path, 1, "no README.md")
        elif (lines := len(readme.read_text(encoding="utf-8").splitlines())) > MAX_README_LINES:
            self.error(readme, lines, f"{lines} lines; at most {MAX_README_LINES}")
        for file in sorted(path.rglob("*")):
            if file.suffix in {".h", ".cc", ".c"}:
                self.check_code(file, folder)
            elif file.name == "CMakeLists.txt":
                self.check_cmake(file, folder)

    def check_unused(self) -> None:
        for folder, uses in self.uses.items():
            for other in uses:
                if (folder, other) not in self.included:
                    self.errors.append(
                        f"tools/layers.toml: {folder} uses {other}, but includes nothing of it"
                    )

    def check_cycles(self) -> None:
        """The table itself must be an order: a folder cannot use one that comes after it."""
        known: set[str] = set(EVERYBODY_USES)
        for folder, uses in self.uses.items():
            for other in uses:
                if other not in known:
                    self.errors.append(f"tools/layers.toml: {folder} uses {other}, which is not above it")
            known.add(folder)


def check(source: Path, table: Table) -> Checker:
    checker = Checker(source, table)
    checker.check_cycles()
    for path in sorted(source.iterdir()):
        if path.is_dir() and any(path.iterdir()):
            checker.check_folder(path)
    return checker


def main() -> int:
    checker = check(ROOT / "src", parse_toml((ROOT / "tools/layers.toml").read_text(encoding="utf-8")))
    checker.check_unused()
    for error in checker.errors:
        print(error)
    print(f"check_layers: {checker.edges} edges, {len(checker.errors)} errors")
    return 1 if checker.errors else 0


if __name__ == "__main__":
    sys.exit(main())
