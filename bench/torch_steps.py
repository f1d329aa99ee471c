#!/usr/bin/env python3
"""What tracing PyTorch costs a step, beside torch.profiler and py-spy. Run by build/torch-venv's Python.

    build/torch-venv/bin/python bench/torch_steps.py [--seconds 150] [--slice 0.25] [mlp] [transformer]

One process trains; short slices of the modes follow each other in a new order every round, so that a
machine that gets slower slows all of them. For each slice the probe is injected and ejected again, by the
command line. A round compares each mode with that round's two slices of "nothing"; the table has the
median of the rounds with a bootstrapped 95 % interval: of the CPU time of the thread that trains, and of
the time that passes, which also has what others do to the process (py-spy holds it). Writes JSON to
bench/results/.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

ROOT = Path(__file__).resolve().parent.parent
PROBING = str(ROOT / "build/release/bin/probing")
PY_SPY = ROOT / "build/bench-venv/bin/py-spy"
SETTING = "probing.torch.profiling"
Interval = tuple[float, float, float]  # the median, and a 95 % interval
Times = tuple[float, float]  # seconds a step, of CPU and of the clock
MODES = {  # None: no probe
    "nothing": None,
    "nothing again": None,
    "idle": "off",
    "default (rate=0.05)": "on",
    "default, 2 exprs": "on,exprs=loss@train_slice,steps@train_slice",
    "every step": "full",
    "torch.profiler": None,
    "py-spy record": None,
}


def mlp() -> tuple[nn.Module, torch.Tensor]:
    """Many tiny layers: the worst case, a few microseconds each."""
    layers = []
    for _ in range(50):
        layers += [nn.Linear(16, 16), nn.ReLU()]
    return nn.Sequential(*layers), torch.randn(8, 16)


def transformer() -> tuple[nn.Module, torch.Tensor]:
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 10, enable_nested_tensor=False), torch.randn(4, 64, 256)


def train_slice(
    model: nn.Module, batch: torch.Tensor, optimizer: torch.optim.Optimizer, seconds: float
) -> Times:
    steps, cpu, begin = 0, time.thread_time(), time.perf_counter()
    while True:
        optimizer.zero_grad()
        loss = model(batch).pow(2).mean()
        loss.backward()
        optimizer.step()
        steps += 1
        if time.perf_counter() - begin > seconds:
            return (time.thread_time() - cpu) / steps, (time.perf_counter() - begin) / steps


def command(*arguments: str) -> None:
    subprocess.run([PROBING, "-t", str(os.getpid()), *arguments], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def in_mode(mode: str) -> Iterator[None]:
    spec = MODES[mode]
    if mode == "torch.profiler":
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            yield
    elif mode == "py-spy record":
        own = ["record", "-p", str(os.getpid()), "-r", "100", "-d", "60", "-o", os.devnull, "-f", "raw"]
        recording = subprocess.Popen(
            [str(PY_SPY), *own], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(0.3)
        yield
        recording.kill()
        recording.wait()
    elif spec is None:
        yield
    else:
        command("inject")
        command("config", "probing.torch.max_overhead=100%")  # what it costs, not what it is kept to
        command("config", f"{SETTING}={spec}")
        while hasattr(torch.autograd.backward, "__wrapped__") != (spec != "off"):
            time.sleep(0.001)
        yield
        command("eject")


def interval(values: list[float]) -> Interval:
    """The median, and where 95 % of the medians of as many drawn again are."""
    medians = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(2000))
    return statistics.median(values), medians[49], medians[1949]


def measure(
    make: Callable[[], tuple[nn.Module, torch.Tensor]], modes: list[str], seconds: float, length: float
) -> tuple[dict[str, dict[str, Interval]], float, int]:
    torch.manual_seed(0)
    model, batch = make()
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    train_slice(model, batch, optimizer, 1)
    rounds: list[dict[str, Times]] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        times: dict[str, Times] = {}
        for mode in random.sample(modes, len(modes)):
            with in_mode(mode):
                train_slice(model, batch, optimizer, length / 10)
                times[mode] = train_slice(model, batch, optimizer, length)
        rounds.append(times)
    results: dict[str, dict[str, Interval]] = {}
    for mode in modes:
        results[mode] = {}
        for i, clock in enumerate(("cpu", "wall")):
            ratios = []
            for times in rounds:
                nothing = [times[name][i] for name in ("nothing", "nothing again")]
                base = nothing[1] if mode == "nothing" else statistics.mean(nothing)
                ratios.append(times[mode][i] / base)
            results[mode][clock] = interval(ratios)
    return results, statistics.median(times["nothing"][1] for times in rounds), len(rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=150, help="for each model")
    parser.add_argument("--slice", type=float, default=0.25, help="seconds that one mode runs at a time")
    parser.add_argument("--modes", default="", help="some of them, by how they begin: idle,every")
    parser.add_argument("models", nargs="*", default=["mlp", "transformer"])
    args = parser.parse_args()
    wanted = tuple(args.modes.split(",")) if args.modes else ("",)
    modes = [mode for mode in MODES if mode.startswith((*wanted, "nothing"))]
    if not PY_SPY.exists() and "py-spy record" in modes:
        modes.remove("py-spy record")
    torch.set_num_threads(1)
    results = {}
    for name in args.models:
        rows, base, rounds = measure(globals()[name], modes, args.seconds, args.slice)
        results[name] = rows
        print(
            f"{name}: {base * 1e3:.3f} ms a step, {rounds} rounds        CPU time                  wall time"
        )
        for mode in [one for one in modes if one != "nothing again"]:
            texts = [f"x {ratio:.4f} ({low:.4f} – {high:.4f})" for ratio, low, high in rows[mode].values()]
            print(f"  {mode:22} {'   '.join(texts)}", flush=True)
    folder = ROOT / "bench/results"
    folder.mkdir(exist_ok=True)
    about = {"torch": torch.__version__, "python": platform.python_version(), "cpus": os.cpu_count()}
    path = folder / time.strftime("torch_steps-%Y%m%d-%H%M%S.json")
    path.write_text(json.dumps({"about": about, "results": results}, indent=1))


if __name__ == "__main__":
    main()
