"""What torch_steps.py trains. Run as a program it does so in a process of its own, for tools that must be
there from the start: it is told on stdin how many steps to make, and answers what each took.

    python bench/torch_models.py mlp|transformer
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
from collections.abc import Callable

import torch
from paired import block
from torch import nn

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h


def mlp() -> tuple[nn.Module, torch.Tensor]:
    """Many tiny layers: the worst case, a few microseconds each."""
    layers = []
    for _ in range(50):
        layers += [nn.Linear(16, 16), nn.ReLU()]
    return nn.Sequential(*layers), torch.randn(8, 16)


def transformer() -> tuple[nn.Module, torch.Tensor]:
    """Ten layers, and small ones: a larger model has steps of which tracing takes a smaller part."""
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 10, enable_nested_tensor=False), torch.randn(1, 16, 128)


MODELS = {"mlp": mlp, "transformer": transformer}


def trainer(name: str) -> Callable[[], None]:
    torch.manual_seed(0)
    model, batch = MODELS[name]()
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    number = 0

    def train_step() -> None:
        nonlocal number
        number += 1
        optimizer.zero_grad()
        loss = model(batch).pow(2).mean()
        loss.backward()
        optimizer.step()

    return train_step


def prepare() -> None:
    """One core; and freed memory stays with the process: having the system take it away and give it back in
    every step takes a time that varies more than what is measured here."""
    torch.set_num_threads(1)
    libc = ctypes.CDLL(None)
    for option in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
        libc.mallopt(option, 1 << 30)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def warm(step: Callable[[], None]) -> None:
    for _ in range(20):
        step()
    gc.collect()
    gc.freeze()


def serve(name: str) -> None:
    prepare()
    step = trainer(name)
    warm(step)
    print("ready", flush=True)
    for line in sys.stdin:
        skipped, steps = map(int, line.split())
        answer = [one.tolist() for one in block(step, skipped, steps)]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
