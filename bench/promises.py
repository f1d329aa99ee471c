"""What a benchmark promises: each bound is printed beside what was measured; a missed one is an exit code."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path


def machine() -> str:
    """What it was measured on, for those who read the figures elsewhere."""
    found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    cpu = found[1] if found else platform.machine()
    return f"{cpu}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"


class Promises:
    def __init__(self) -> None:
        self.missed: list[str] = []

    def at_most(self, what: str, value: float, most: float, unit: str = "") -> None:
        """NaN, which is what a measurement without values gives, is not within any bound."""
        kept = value <= most
        verdict = "ok" if kept else "MISSED"
        print(f"promise: {what:<52}{value:>10.3f} {unit:<3} ≤ {most:g} {unit:<3} {verdict}", flush=True)
        if not kept:
            self.missed.append(what)

    def exit_code(self) -> int:
        print(f"not kept: {', '.join(self.missed)}" if self.missed else "all promises are kept", flush=True)
        return 1 if self.missed else 0
