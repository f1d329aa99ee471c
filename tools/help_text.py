"""What `probing --help` says, as data: man pages and the reference are written from it.

The text is that of CLI11: a sentence, `Usage:`, sections with a name and a colon whose lines are two
columns, and whatever follows (examples, a last remark) as it stands.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

COLUMNS = ("Positionals", "Options", "Subcommands")
LINE = re.compile(r"  (\S.*?)(?:  +(\S.*))?$")


@dataclass
class Help:
    name: str  # "probing", "probing inject"
    summary: str
    usage: str
    sections: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def commands(self) -> list[str]:
        """Names without their short forms: "list, ls" is list."""
        return [names.split(",")[0] for names, _ in self.sections.get("Subcommands", [])]


def parse(name: str, text: str) -> Help:
    lines = text.splitlines()
    usage = next(i for i, line in enumerate(lines) if line.startswith("Usage:"))
    found = Help(name, " ".join(lines[:usage]).strip(), lines[usage].removeprefix("Usage:").strip())
    section = ""
    for line in lines[usage + 1 :]:
        heading = re.fullmatch(r"(\w+):", line)
        if heading:
            section = heading[1]
        elif not line.strip():
            continue
        elif not line.startswith(" "):
            found.remarks.append(line)
        elif section in COLUMNS:
            add_row(found.sections.setdefault(section, []), line)
        else:
            found.examples.append(line.strip())
    return found


def add_row(rows: list[tuple[str, str]], line: str) -> None:
    match = LINE.match(line)
    if match and not line.startswith("   "):
        rows.append((match[1], match[2] or ""))
    else:  # the rest of a description that did not fit
        term, description = rows[-1]
        rows[-1] = (term, f"{description} {line.strip()}".strip())


def ask(program: Path, *words: str) -> str:
    command = [str(program), *words, "--help"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def read_all(bin_dir: Path) -> list[Help]:
    """`probing` itself, then each of its commands."""
    program = bin_dir / "probing"
    top = parse("probing", ask(program))
    return [top, *(parse(f"probing {command}", ask(program, command)) for command in top.commands)]
