"""A training loop without a framework: what a debugger stops in, and what log points look at.

The learning rate decides what the loss becomes, so that a changed one shows in the counters. Python 3.6.
"""

import signal
import threading
import time

from report import Report


class Model:
    def __init__(self):
        self.weight = 10.0

    def forward(self, x):
        y = self.weight * x
        return y


def update(model, gradient, lr):
    model.weight -= lr * gradient


class Interrupted(Exception):
    """Raised by the program's own signal handler."""


def on_signal(number, frame):
    raise Interrupted("by signal %d" % number)


def train(report):
    model = Model()
    lr = 0.001
    step = 0
    while True:
        step += 1
        loss = abs(model.forward(1.0))
        gradient = 1.0 if model.weight > 0 else -1.0
        update(model, gradient, lr)  # the update
        report["steps"] = step
        report["rate"] = int(lr * 1000)
        report["loss"] = int(loss * 1000)
        time.sleep(0.001)


def half(value):
    return value / 2


def whole(value):
    return half(value) + half(value)


def other(report):
    while True:
        report["others"] += int(whole(1))
        time.sleep(0.001)


report = Report("steps", "rate", "loss", "others", "interrupts")
signal.signal(signal.SIGUSR1, on_signal)
threading.Thread(target=other, args=(report,), name="other", daemon=True).start()
report.ready()
while True:
    try:
        train(report)
    except Interrupted:
        report["interrupts"] += 1
