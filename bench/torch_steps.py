#!/usr/bin/env python3
"""What tracing PyTorch costs a step, beside torch.profiler. Run by build/torch-venv's Python.

    build/torch-venv/bin/python bench/torch_steps.py [--rounds N] [--seconds S] [mlp] [transformer]

One process trains; short slices of the modes follow each other in a new order every round, so that a
machine that gets slower slows all of them. A slice's step time is the mean, a round compares each mode
with that round's "idle" (the probe is there, nothing is traced), and the table has the median of the
rounds with a bootstrapped 95 % interval. Time is the CPU time of the thread that trains: what other
programs on the machine do is not in it, and neither is what the probe does elsewhere (its thread sleeps).
Writes JSON to bench/results/.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

import probing  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

SETTING = "probing.torch.profiling"
Interval = tuple[float, float, float]  # the median, and a 95 % interval
MODES = {
    "idle": "off",
    "steps": "steps",
    "default (rate=0.05)": "on",
    "every step": "full",
    "every step, no backward": "full,backward=off",
    "default + 2 exprs": "on,exprs=loss@train_slice,total@train_slice",
    "torch.profiler": None,
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
) -> float:
    """Seconds of CPU per step."""
    steps, total = 0, 0.0
    begin = time.thread_time()
    while True:
        optimizer.zero_grad()
        loss = model(batch).pow(2).mean()
        loss.backward()
        optimizer.step()
        steps += 1
        total = time.thread_time() - begin
        if total > seconds:
            return total / steps


def switch(spec: str) -> None:
    """Sets it and waits until it is so."""
    probing.config[SETTING] = spec
    wanted = spec != "off"
    while hasattr(torch.autograd.backward, "__wrapped__") != wanted:
        time.sleep(0.001)
    time.sleep(0.02)


def one_slice(mode: str, train: Callable[[float], float], seconds: float) -> float:
    spec = MODES[mode]
    if spec is None:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            return train(seconds)
    if spec != "off":
        switch(spec)
    train(seconds / 10)
    took = train(seconds)
    switch("off")
    return took


def interval(values: list[float]) -> Interval:
    """The median, and where 95 % of the medians of as many drawn again are."""
    medians = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(2000))
    return statistics.median(values), medians[49], medians[1949]


def measure(
    make: Callable[[], tuple[nn.Module, torch.Tensor]], rounds: int, seconds: float
) -> tuple[dict[str, Interval], float]:
    torch.manual_seed(0)
    model, batch = make()
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)

    def train(length: float) -> float:
        return train_slice(model, batch, optimizer, length)

    train(1)
    ratios: dict[str, list[float]] = {mode: [] for mode in MODES if mode != "idle"}
    idle = []
    for _ in range(rounds):
        order = [*MODES, "idle"]  # twice, so that it is around the others
        random.shuffle(order)
        times: dict[str, list[float]] = {}
        for mode in order:
            times.setdefault(mode, []).append(one_slice(mode, train, seconds))
        base = statistics.mean(times["idle"])
        idle.append(times["idle"][0] / times["idle"][1])
        for mode, values in ratios.items():
            values.append(times[mode][0] / base)
    return {
        "idle / idle": interval(idle),
        **{mode: interval(values) for mode, values in ratios.items()},
    }, base


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.25)
    parser.add_argument("models", nargs="*", default=["mlp", "transformer"])
    args = parser.parse_args()
    torch.set_num_threads(1)
    probing.config["probing.torch.max_overhead"] = "100%"  # what it costs, not what it is kept to
    results = {}
    for name in args.models:
        rows, base = measure(globals()[name], args.rounds, args.seconds)
        results[name] = rows
        print(f"{name}: {base * 1e3:.3f} ms a step")
        for mode, (ratio, low, high) in rows.items():
            print(f"  {mode:26} x {ratio:.4f}  ({low:.4f} – {high:.4f})", flush=True)
    folder = ROOT / "bench/results"
    folder.mkdir(exist_ok=True)
    about = {"torch": torch.__version__, "python": platform.python_version(), "cpus": os.cpu_count()}
    path = folder / time.strftime("torch_steps-%Y%m%d-%H%M%S.json")
    path.write_text(json.dumps({"about": about, "results": results}, indent=1))


if __name__ == "__main__":
    main()
