"""Trains on the stand-in of a GPU's allocator (gpu_allocator.py): target_gpu_memory.py FOLDER [lazy].

Files in FOLDER say what it does next; it answers with files. Steps of some milliseconds."""

import os
import sys
import time

import torch
from gpu_allocator import MB, Allocator

folder = sys.argv[1]
gpu = Allocator(devices=2, limit=256 * MB).install()
kept = []


def said(name):
    return os.path.exists(os.path.join(folder, name))


def answer(name, text=""):
    with open(os.path.join(folder, name + ".part"), "w") as file:
        file.write(str(text))
    os.rename(os.path.join(folder, name + ".part"), os.path.join(folder, name))


def make_weights():
    return [gpu.allocate(1000 * size) for size in range(1, 41)] + [gpu.allocate(12 * MB), gpu.allocate(64, 1)]


def forward():
    return [gpu.allocate(3 * MB + 100), gpu.allocate(700)]


def remember(history):
    history.append(gpu.allocate(256 * 1024))


def train_step():
    activations = forward()
    remember(kept)
    if len(kept) > 20:
        gpu.free(kept.pop(0))
    time.sleep(0.005)
    for each in activations:
        gpu.free(each)


def ask_for_too_much():
    try:
        gpu.allocate(240 * MB)
        answer("oom_done", "no error")
    except torch.OutOfMemoryError:
        answer("oom_done", "out of memory")


if "lazy" in sys.argv:
    answer("ready")
    while not said("begin"):
        time.sleep(0.005)
gpu.begin()
weights = make_weights()
used_elsewhere = gpu.allocate(5 * MB, stream=7)
gpu.free(used_elsewhere, used_elsewhere=True)
answer("ready")
rounds = 0
while not said("end"):
    train_step()
    if said("own"):
        os.remove(os.path.join(folder, "own"))
        torch.cuda.memory._record_memory_history(max_entries=1000)
        answer("own_on")
    if said("oom"):
        os.remove(os.path.join(folder, "oom"))
        ask_for_too_much()
    if said("state"):
        os.remove(os.path.join(folder, "state"))
        function = torch.cuda.memory._record_memory_history
        answer(
            "told", [gpu.enabled, gpu.switched, function.__module__, len(gpu.observers), len(gpu.traces[0])]
        )
answer("ended")
