#!/usr/bin/env python3
"""Manual pages from --help: man_pages.py BIN_DIR FOLDER writes probing.1, probing-inject.1 and so on."""

from __future__ import annotations

import sys
from pathlib import Path

import help_text

TITLES = {"Positionals": "ARGUMENTS", "Options": "OPTIONS", "Subcommands": "COMMANDS"}
ENVIRONMENT = [
    (
        "PROBING, PROBE",
        "1, nested, regex:PATTERN or a script's name: which Python programs start with the probe.",
    ),
    ("PROBING_DISABLE", "1 keeps the probe out of a process."),
    ("PROBING_TOKEN", "the token sent to an address given with -t."),
    ("PROBE_ADDR, PROBING_ADDR, PROBING_PORT", "where a program is served from its start on."),
    (
        "PROBE_BG",
        "1, the default: a program started with the probe is served in the background. 0: it begins when the "
        "first client asks about it.",
    ),
    ("PROBE_PPROF", "1 samples a program from its start on, 0 never."),
]
EXIT_CODES = [
    ("0", "done"),
    ("1", "the target failed"),
    ("2", "wrong usage"),
    ("3", "not permitted"),
    ("4", "no such target"),
    ("5", "timed out"),
    ("6", "some ranks did not answer"),
]
DAEMON = help_text.Help(
    "probingd",
    "Watches the probed processes of one user, and answers questions about them",
    "probingd [--version]",
    remarks=[
        "probing starts it when it is needed, one for each user and host; it ends by itself when there is "
        "nothing left to watch. It has no options: `probing config` shows and changes its settings."
    ],
)


def escape(text: str) -> str:
    """Dashes as one types them; a line that starts with a dot or a quote is no request."""
    safe = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + safe if safe.startswith((".", "'")) else safe


def rows(title: str, entries: list[tuple[str, str]]) -> list[str]:
    lines = [f".SH {title}"]
    for term, description in entries:
        lines += [".TP", f".B {escape(term)}", escape(description)]
    return lines


def page(about: help_text.Help, version: str) -> str:
    name = about.name.replace(" ", "-")
    lines = [
        f'.TH {escape(name.upper())} 1 "" "probing {version}" "Probing"',
        ".SH NAME",
        f"{escape(name)} \\- {escape(about.summary.rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {escape(about.usage)}",
    ]
    if about.remarks:
        lines.append(".SH DESCRIPTION")
        lines += [escape(remark) for remark in about.remarks]
    for section, entries in about.sections.items():
        lines += rows(TITLES[section], entries)
    if about.examples:
        lines += [".SH EXAMPLES", ".nf", *map(escape, about.examples), ".fi"]
    if about.name == "probing":
        lines += rows("EXIT STATUS", EXIT_CODES)
        lines += rows("ENVIRONMENT", ENVIRONMENT)
        pages = [f"{name}-{command}" for command in about.commands]
        lines += [".SH SEE ALSO", escape(", ".join(f"{each}(1)" for each in [*pages, "probingd"]))]
    else:
        lines += [".SH SEE ALSO", "probing(1)"]
    return "\n".join(lines) + "\n"


def all_pages(bin_dir: Path, version: str) -> dict[str, str]:
    """File name → text."""
    helps = [*help_text.read_all(bin_dir), DAEMON]
    pages = {about.name.replace(" ", "-") + ".1": page(about, version) for about in helps}
    return pages | {"probe.1": ".so man1/probing.1\n"}


def main() -> int:
    bin_dir, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    version = help_text.subprocess.run(
        [str(bin_dir / "probing"), "--version"], check=True, capture_output=True, text=True
    ).stdout.split()[1]
    for name, text in all_pages(bin_dir, version).items():
        (folder / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
