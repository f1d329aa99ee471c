"""Whom torch_steps.py measures beside us."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from paired import Blocks

ROOT = Path(__file__).resolve().parent.parent
PY_SPY = ROOT / "build/bench-venv/bin/py-spy"
# Of the PyPI package: what PROBING_TORCH_PROFILING is set to. It traces the forward call of one module in a
# step, and knows one expression.
PYPI = {
    "PyPI probing, loaded": "off",
    "PyPI probing, on": "on",
    "PyPI probing, 1 expr": "on,exprs=loss@train_step",
}
# As its .pth file has it, in the Python that has torch.
START = """
import runpy, site, sys
site.addsitedir(sys.argv.pop(1))
sys.path.insert(0, sys.argv[1].rpartition("/")[0])
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def site_of_bench() -> Path | None:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return next(iter((ROOT / "build/bench-venv/lib").glob(f"{version}/site-packages")), None)


def has_pypi() -> bool:
    """Also for this version of Python."""
    site = site_of_bench()
    return site is not None and (site / "probing.pth").exists()


def has_py_spy() -> bool:
    return PY_SPY.exists()


class Worker:
    """A process that trains when it is told to: with the package and its setting, or without."""

    def __init__(self, model: str, setting: str | None) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PROBING", "PROBE"))}
        program = [str(ROOT / "bench/torch_models.py"), model]
        if setting is not None:
            environment |= {"PROBING": "1", "PROBING_TORCH_PROFILING": setting}
            program = ["-c", START, str(site_of_bench()), *program]
        self.process = subprocess.Popen(
            [sys.executable, *program],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        while self.read() != "ready":  # the package says what it does
            pass

    def read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the process that trains has ended")
        return line.strip()

    def run(self, steps: int, skipped: int = 2) -> Blocks:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{skipped} {steps}\n")
        self.process.stdin.flush()
        return [np.array(one) for one in json.loads(self.read())]

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


class Profiler:
    def __init__(self) -> None:
        self.profile: torch.profiler.profile | None = None

    def switch(self, state: str) -> None:
        if self.profile is not None:
            self.profile.stop()
            self.profile = None
        if state == "a":
            self.profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
            self.profile.start()


class PySpy:
    recording: subprocess.Popen[bytes] | None = None

    def switch(self, state: str) -> None:
        if self.recording is not None:
            self.recording.kill()
            self.recording.wait()
            self.recording = None
        if state == "a":
            own = ["record", "-p", str(os.getpid()), "-r", "100", "-d", "600", "-o", os.devnull, "-f", "raw"]
            self.recording = subprocess.Popen(
                [str(PY_SPY), *own], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            time.sleep(0.3)
