"""One rank of a small job, and what can go wrong with it: target_rank.py PACKAGE STORE TROUBLE WHO

PACKAGE is where the package probing lies, STORE a folder that the ranks share, WHO the rank that has
the TROUBLE. Ranks meet in `all_reduce` at files in STORE, so the waiting is real; steps and collectives
are written as the probe's tracer does, so that no torch is needed. RANK and WORLD_SIZE are as torchrun
sets them. Python 3.6.
"""

import gc
import os
import random
import sys
import threading
import time

from report import Report
from troubles import deadlock, keep_the_gil, wait_for_ever, wait_in_the_kernel

sys.path.insert(0, sys.argv[1])
import probing  # noqa: E402
from probing import _native  # noqa: E402

STORE, TROUBLE, WHO = sys.argv[2], sys.argv[3], int(sys.argv[4])
RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
HAS_TROUBLE = RANK == WHO
BEGINS = 25  # the step at which the trouble does
report = Report("steps", "seq")
starts = _native.Table("python.collective_starts")
collectives = _native.Table("python.collectives")
spans = _native.Table("python.spans")
steps = _native.Table("python.torch_steps")
kept = []


def write(table, *row):
    table.append(*row) or table.again(*row)


def all_reduce(step, op="all_reduce"):
    report["seq"] += 1
    seq = report["seq"]
    began, clock = time.time(), time.perf_counter()
    write(starts, int(began * 1e9), seq, "0", op, 1024, step)
    open(os.path.join(STORE, "%d.%d" % (seq, RANK)), "w").close()
    for rank in range(WORLD):
        while not os.path.exists(os.path.join(STORE, "%d.%d" % (seq, rank))):
            time.sleep(0.001)
    took_ms = (time.perf_counter() - clock) * 1e3
    write(collectives, int(began * 1e9), seq, "0", op, 1024, "float32", "completed", None, took_ms, step)


def save(step):
    began, clock = time.time(), time.perf_counter()
    time.sleep(0.03)
    took_ms = (time.perf_counter() - clock) * 1e3
    file = '{"file": "/checkpoints/last.pt"}'
    write(
        spans, int(began * 1e9), threading.get_ident(), None, None, "torch.save", "span", step, took_ms, file
    )


def load(step):
    slow = HAS_TROUBLE and TROUBLE == "data_stall"
    time.sleep(0.02 if slow else 0.0002)


def compute(step):
    until = time.perf_counter() + 0.005
    while time.perf_counter() < until:
        sum(range(100))
    if not HAS_TROUBLE or step < BEGINS:
        return
    if TROUBLE == "spike" and step > BEGINS + 2:
        wait_for_ever()  # so that nobody comes too late to see it
    elif TROUBLE == "straggler":
        time.sleep(0.05)
    elif TROUBLE == "slow_checkpoint":
        save(step)
    elif TROUBLE == "memory_growth":
        kept.append(bytearray(os.urandom(1024)) * 2048)
    elif TROUBLE == "gc_pause":
        if not kept:
            kept.extend([i] for i in range(400000))
        gc.collect()
    elif TROUBLE == "death":
        raise ValueError("a batch without labels")
    elif TROUBLE == "hang":
        wait_for_ever()
    elif TROUBLE in ("deadlock", "gil", "kernel"):
        {"deadlock": deadlock, "gil": keep_the_gil, "kernel": lambda: wait_in_the_kernel(STORE)}[TROUBLE]()


def loss_of(step):
    trouble = HAS_TROUBLE and step >= BEGINS
    loss = 2.0 / (1 + step / 50) + random.random() * 0.05
    return (
        float("nan")
        if trouble and TROUBLE == "nan"
        else loss * 50
        if trouble and TROUBLE == "spike"
        else loss
    )


def train():
    step = 0
    while True:
        began, marks = time.time(), [time.perf_counter()]
        load(step)
        marks.append(time.perf_counter())
        compute(step)
        marks.append(time.perf_counter())
        mismatch = TROUBLE == "mismatch" and HAS_TROUBLE and step == BEGINS
        all_reduce(step, "broadcast" if mismatch else "all_reduce")
        marks.append(time.perf_counter())
        parts = [b - a for a, b in zip(marks, marks[1:])]
        write(steps, int(began * 1e9), step, sum(parts), parts[0], parts[1], 0.0, 0.0, 0.0)
        probing.log(step=step, loss=loss_of(step))
        report["steps"] += 1
        step += 1


report.ready()
train()
