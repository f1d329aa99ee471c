"""Keeps much memory in one way, named by the first argument, and then does nothing.

`census FILE` writes what gc.get_objects() lists, by class. Python 3.6 syntax.
"""

import collections
import gc
import json
import sys
import threading
import time

from report import Report

KILOBYTES = 10
COUNT = 4000


def payload(number):
    return b"%06d" % number * (KILOBYTES * 1024 // 6)


class Node(object):
    def __init__(self, number):
        self.content = payload(number)
        self.other = None


class Slotted(object):
    __slots__ = ("rows",)


class Holder(object):
    pass


def make_step():
    kept = []

    def step(number):
        kept.append(payload(number))

    return step


def generate():
    history = []
    while True:
        number = yield len(history)
        history.append(payload(number))


def fill_thread(ready):
    local.items = [payload(i) for i in range(COUNT)]
    ready.set()
    threading.Event().wait()


def hold_gil():
    import ctypes

    c = ctypes.PyDLL(None)
    report["held"] = 1
    c.sleep(3600)


scenario = sys.argv[1]
report = Report("held")
local = threading.local()

if scenario == "cache":
    cache = {}
    for i in range(COUNT):
        cache["step %d" % i] = payload(i)
elif scenario == "global":
    losses = [payload(i) for i in range(COUNT)]
elif scenario == "attribute":
    holder = Holder()
    holder.history = collections.deque(payload(i) for i in range(COUNT))
elif scenario == "slot":
    slotted = Slotted()
    slotted.rows = set(payload(i) for i in range(COUNT))
elif scenario == "closure":
    step = make_step()
    for i in range(COUNT):
        step(i)
elif scenario == "generator":
    running = generate()
    next(running)
    for i in range(COUNT):
        running.send(i)
elif scenario == "thread_local":
    ready = threading.Event()
    threading.Thread(target=fill_thread, args=(ready,), name="filler", daemon=True).start()
    ready.wait()
elif scenario == "cycle":
    gc.disable()
    for i in range(COUNT // 2):
        node, other = Node(i), Node(i)
        node.other, other.other = other, node
    del node, other
elif scenario == "losses":
    import torch

    weight = torch.ones(1000, requires_grad=True)
    losses = []
    for i in range(2000):
        kept = torch.zeros(5000)
        kept.loss = (weight * i).sum()
        losses.append(kept)
    del kept
elif scenario == "held_from_c":
    import torch

    big = torch.ones(8 * 1024 * 1024, requires_grad=True)
    loss = (big * 2).sum()
    del big
elif scenario == "many":
    size = int(sys.argv[2])
    rows = [[i] for i in range(size // 2)]
    pairs = [Slotted() for i in range(size - size // 2)]
elif scenario == "census":
    objects = [Node(i) for i in range(100)] + [Slotted() for i in range(50)] + [set() for i in range(30)]
    objects += [collections.OrderedDict(a=1), collections.defaultdict(list), collections.deque([1])]
    counts = collections.Counter()
    names = []
    path = sys.argv[2]
    i = name = kind = listed = None
    gc.collect()
    gc.disable()
    with open(path, "w") as file:  # imports what it needs
        file.write(json.dumps({"a": 1}))
    file = None
    gc.collect()
    if hasattr(gc, "unfreeze"):  # collect() has frozen what is immortal in 3.12
        gc.unfreeze()
    listed = gc.get_objects()
    for i in listed:
        kind = type(i)
        name = (
            kind.__qualname__ if kind.__module__ == "builtins" else kind.__module__ + "." + kind.__qualname__
        )
        counts[name] += 1
    i = name = kind = listed = None
    with open(path, "w") as file:
        file.write(json.dumps(counts))
    file = None

report.ready()
if len(sys.argv) > 2 and sys.argv[-1] == "gil":
    threading.Thread(target=hold_gil, name="gil", daemon=True).start()
while True:
    time.sleep(3600)
