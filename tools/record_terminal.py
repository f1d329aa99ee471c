#!/usr/bin/env python3
"""Runs a tour of commands against a real job and draws what a terminal showed: docs/images/terminal.svg.

Every line of output is what the command printed just now. The picture moves where SVG may (a command
is typed, then its answer appears) and shows everything where it may not.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(os.environ.get("PROBING_BIN", ROOT / "build/release/bin"))
PYTHON = ROOT / "build/torch-venv/bin/python"
OUTPUT = ROOT / "docs/images/terminal.svg"
# An example, the function that shows that its trouble has begun, and what is asked of it then. $PID is the
# process that is in that function.
TOUR = [
    (
        "examples/hang.py",
        "look_at_bad_batch",
        [
            "probing diagnose",
            "probing -t $PID inject",
            "probing -t $PID eval --frame 3 'step, model, tuple(loss.shape)'",
        ],
    ),
    (
        "examples/leak.py",
        "step",
        ["probing -t $PID inject", "probing -t $PID memory --leaks -d 2"],
    ),
]
COLUMNS, CHAR_WIDTH, LINE_HEIGHT, MARGIN = 100, 8.2, 19, 16
PAUSE_SECONDS, LINE_SECONDS = 2.2, 0.06
SOME_RANKS_HAVE_NO_PROBE = 6
STYLE = (
    "text{font:13.6px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre;fill:#d8dee9}"
    ".c{fill:#88c0d0;font-weight:bold}"
    "@media(prefers-reduced-motion:no-preference){g{opacity:0;animation:s .01s linear forwards}}"
    "@keyframes s{to{opacity:1}}"
)


@dataclass(frozen=True)
class Line:
    text: str
    seconds: float  # when it appears
    is_command: bool = False


def run(command: str) -> list[str]:
    # A terminal's width decides how tables are cut; there is none here.
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "COLUMNS": str(COLUMNS)}
    done = subprocess.run(shlex.split(command), env=environment, capture_output=True, text=True)
    if done.returncode not in (0, SOME_RANKS_HAVE_NO_PROBE):
        sys.exit(f"record_terminal: {command} ended with {done.returncode}: {done.stderr}")
    return (done.stdout + done.stderr).rstrip("\n").splitlines()


def fitted(text: str) -> list[str]:
    """Sentences are wrapped as a terminal does, tables are cut."""
    text = text.replace(f"{ROOT}/", "").replace("build/torch-venv/bin/", "")
    if "│" in text or "┼" in text or len(text) <= COLUMNS:
        return [text if len(text) <= COLUMNS else text[: COLUMNS - 1] + "…"]
    return textwrap.wrap(text, COLUMNS, subsequent_indent="  ")


def pid_in(function: str, root: int, deadline_seconds: float = 60) -> int:
    """The process among `root` and its children whose stack shows the function."""
    end = time.monotonic() + deadline_seconds
    while time.monotonic() < end:
        children = Path(f"/proc/{root}/task/{root}/children").read_text().split()
        for pid in [root, *map(int, children)]:
            asked = subprocess.run(
                [BIN / "probing", "-t", str(pid), "backtrace"], capture_output=True, text=True
            )
            if f" {function} (" in asked.stdout or f".{function} (" in asked.stdout:
                return pid
        time.sleep(0.2)
    sys.exit(f"record_terminal: no process of {root} came to {function}")


def take_tour() -> list[Line]:
    lines: list[Line] = []
    now = 0.2
    for script, function, commands in TOUR:
        job = subprocess.Popen([str(PYTHON), script], cwd=ROOT, stdout=subprocess.DEVNULL)
        try:
            lines.append(Line(f"$ python {script} &", now, True))
            pid = pid_in(function, job.pid)
            for template in commands:
                command = template.replace("$PID", str(pid))
                answer = run(command)
                now += PAUSE_SECONDS
                lines.append(Line(f"$ {command}", now, True))
                now += 0.4
                for text in (piece for line in answer for piece in fitted(line)):
                    now += LINE_SECONDS
                    lines.append(Line(text, now))
        finally:
            job.terminate()
            job.wait()
        now += PAUSE_SECONDS
    return lines


def draw(lines: list[Line]) -> str:
    width = COLUMNS * CHAR_WIDTH + 2 * MARGIN
    height = len(lines) * LINE_HEIGHT + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}">'
    ]
    parts.append(f'<style>{STYLE}</style><rect width="100%" height="100%" rx="8" fill="#20242c"/>')
    for number, line in enumerate(lines):
        y = MARGIN + (number + 0.75) * LINE_HEIGHT
        kind = ' class="c"' if line.is_command else ""
        group = f'<g style="animation-delay:{line.seconds:.2f}s">'
        parts.append(
            f'{group}<text x="{MARGIN}" y="{y:.0f}"{kind} xml:space="preserve">{escape(line.text)}</text></g>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> int:
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    output.write_text(draw(take_tour()))
    print(f"wrote {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
