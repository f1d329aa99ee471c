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
import time
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(os.environ.get("PROBING_BIN", ROOT / "build/release/bin"))
OUTPUT = ROOT / "docs/images/terminal.svg"
JOB = "examples/demo_train.py"
TOUR = [
    "probing -t $PID backtrace",
    "probing -t $PID inject",
    "probing -t $PID eval 'step, round(loss, 4), type(network).__name__'",
    'probing -t $PID query "SELECT func, lineno, state FROM python.stacks WHERE depth = 0"',
    "probing -t $PID eject",
]
COLUMNS, CHAR_WIDTH, LINE_HEIGHT, MARGIN = 100, 8.2, 19, 16
PAUSE_SECONDS, LINE_SECONDS = 1.4, 0.06
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
    if done.returncode != 0:
        sys.exit(f"record_terminal: {command} ended with {done.returncode}: {done.stderr}")
    return (done.stdout + done.stderr).rstrip("\n").splitlines()


def take_tour(pid: int) -> list[Line]:
    lines = [Line(f"$ python3 {JOB} &", 0.2, True), Line(f"[1] {pid}", 0.5)]
    now = 0.5
    for template in TOUR:
        command = template.replace("$PID", str(pid))
        answer = run(command)
        now += PAUSE_SECONDS
        lines.append(Line(f"$ {command}", now, True))
        now += 0.4
        for text in answer:
            now += LINE_SECONDS
            lines.append(Line(text.replace(str(ROOT) + "/", ""), now))
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
        text = line.text if len(line.text) <= COLUMNS else line.text[: COLUMNS - 1] + "…"
        kind = ' class="c"' if line.is_command else ""
        group = f'<g style="animation-delay:{line.seconds:.2f}s">'
        parts.append(
            f'{group}<text x="{MARGIN}" y="{y:.0f}"{kind} xml:space="preserve">{escape(text)}</text></g>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> int:
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    job = subprocess.Popen([sys.executable, JOB], cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert job.stdout is not None
        job.stdout.readline()  # it says when it begins
        time.sleep(1)
        output.write_text(draw(take_tour(job.pid)))
    finally:
        job.kill()
        job.wait()
    print(f"wrote {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
