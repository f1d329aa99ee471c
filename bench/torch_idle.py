"""How much CPU time the probe's threads take while a process trains and nobody asks for anything."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path


def of_other_threads() -> float:
    """Seconds on a CPU of all threads but this one, as the scheduler counts them."""
    own, seconds = threading.get_native_id(), 0.0
    for task in Path("/proc/self/task").iterdir():
        if int(task.name) != own:
            seconds += int((task / "schedstat").read_text().split()[0]) / 1e9
    return seconds


def share_of_probe(step: Callable[[], object], seconds: float) -> float:
    """Of the time that passes. Nothing else has threads that do anything: torch was told to use one."""
    assert len(os.listdir("/proc/self/task")) > 1, "the probe has a thread"
    began, before = time.monotonic(), of_other_threads()
    while time.monotonic() < began + seconds:
        step()
    return (of_other_threads() - before) / (time.monotonic() - began)
