"""A job with everything the web page shows: steps, losses, spans, collections, an exception, a hung thread.

target_job.py PACKAGE [TITLE]    where the package probing lies, and a text that is put into names and
values. The rows of PyTorch are written as the probe's tracer does, so that no torch is needed.
"""

import gc
import math
import random
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
import probing  # noqa: E402
from probing import _native  # noqa: E402

steps = _native.Table("python.torch_steps")
calls = _native.Table("python.torch_trace")
MODULES = [("net.embed", "Embedding", 0.6), ("net.attention", "Attention", 2.5), ("net.head", "Linear", 1.1)]
TITLE = sys.argv[2] if len(sys.argv) > 2 else "prefetch"
lock = threading.Lock()


def wait_for_a_lock_for_ever():
    lock.acquire()


def load_batch(size):
    time.sleep(0.002)
    return [random.random() for _ in range(size)]


def forward(batch):
    return sum(math.sin(x) ** 2 for x in batch)


def backward(batch, loss):
    return sorted(x * loss for x in batch)


def record(step, began, parts):
    began_ns = int(began * 1e9)
    row = (began_ns, step, sum(parts), *parts, 0.00001)
    steps.append(*row) or steps.again(*row)
    for seq, (module, kind, share) in enumerate(MODULES):
        for stage, seconds in (("forward", parts[1]), ("backward", parts[2])):
            took = seconds * share / 5
            row = (began_ns, step, seq, module, kind, module + "." + stage, stage)
            row += (None, None, None, took, took * 1e3, "cpu", False)
            calls.append(*row) or calls.again(*row)


def train_step(step):
    began = time.time()
    marks = [time.perf_counter()]
    with probing.span("load"):
        batch = load_batch(2000)
    marks.append(time.perf_counter())
    with probing.span("compute", note=TITLE):
        loss = forward(batch) / len(batch)
        marks.append(time.perf_counter())
        backward(batch, loss)
    marks.append(time.perf_counter())
    parts = [b - a for a, b in zip(marks, marks[1:])]
    record(step, began, [*parts, 0.0002])
    probing.step(step)
    probing.log(
        epoch=step // 100,
        loss=2.0 / (1 + step / 50) + random.random() * 0.05,
        accuracy=min(0.99, step / 1000),
    )


def main():
    lock.acquire()
    threading.Thread(target=wait_for_a_lock_for_ever, name="hung " + TITLE, daemon=True).start()
    threading.Thread(target=lambda: 1 / 0).start()
    probing.event("start", note=TITLE)
    step = 0
    while True:
        train_step(step)
        if step % 50 == 0:
            gc.collect()
        if step == 5:
            print("ready", flush=True)
        step += 1


if __name__ == "__main__":
    main()
