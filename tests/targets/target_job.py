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
    time.sleep(0.004)
    return [random.random() for _ in range(size)]


def forward(batch):
    return sum(math.sin(x) ** 2 for x in batch)


def backward(batch, loss):
    return sorted(x * loss for x in batch)


def update(batch):
    return [x * 0.9 for x in batch]


def record(step, began, parts):
    """A step, and calls of modules which take its forward and backward part in turns."""
    row = (int(began * 1e9), step, sum(parts), *parts, 0.00001)
    steps.append(*row) or steps.again(*row)
    at = began + parts[0]
    whole = sum(share for _, _, share in MODULES)
    for stage, seconds, modules in (("forward", parts[1], MODULES), ("backward", parts[2], MODULES[::-1])):
        for seq, (module, kind, share) in enumerate(modules):
            took = seconds * share / whole
            row = (int(at * 1e9), step, seq, module, kind, module + "." + stage, stage)
            row += (None, None, None, took, took * 1e3, "cpu", False)
            calls.append(*row) or calls.again(*row)
            at += took


def train_step(step):
    began = time.time()
    marks = [time.perf_counter()]
    with probing.span("step %d" % step):
        with probing.span("load"):
            batch = load_batch(6000)
        marks.append(time.perf_counter())
        with probing.span("compute", note=TITLE):
            loss = forward(batch) / len(batch)
            marks.append(time.perf_counter())
            backward(batch, loss)
        marks.append(time.perf_counter())
        with probing.span("update"):
            update(batch)
        marks.append(time.perf_counter())
    record(step, began, [b - a for a, b in zip(marks, marks[1:])])
    probing.step(step)
    noise = random.random() * 0.05
    probing.log(
        epoch=step // 100, loss=2.0 / (1 + step / 50) + noise, accuracy=1 - 1 / (1 + step / 90) - noise
    )


def main():
    lock.acquire()
    threading.Thread(target=wait_for_a_lock_for_ever, name="hung " + TITLE, daemon=True).start()
    probing.event("start", note=TITLE)
    step = 0
    while True:
        train_step(step)
        if step % 50 == 0:
            gc.collect()
        if step == 50:  # the probe's hooks are there by now
            threading.Thread(target=lambda: 1 / 0).start()
        if step == 5:
            print("ready", flush=True)
        step += 1


if __name__ == "__main__":
    main()
