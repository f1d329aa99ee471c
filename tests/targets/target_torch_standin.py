"""Trains with the stand-in of PyTorch: target_torch_standin.py SCENARIO. Steps of a millisecond."""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "standin"))

import torch
from report import Report
from torch import nn

report = Report("steps", "failed")
model = nn.Sequential(first=nn.Linear(), middle=nn.Sequential(inner=nn.Linear()), last=nn.Linear())
optimizer = torch.optim.SGD()


class Meter(object):
    @property
    def broken(self):
        raise ValueError("a property that raises")

    @property
    def value(self):
        return 0.25


def measure(steps):
    """Not on the stack any more when a step ends."""
    half = steps / 2
    whole = half * 2  # the line that is watched
    return whole


def train_step(epoch, meter):
    output = model(torch.Tensor())
    measure(report["steps"])
    loss = 1.0 / (1 + report["steps"])
    huge = list(range(100000))
    endless = []
    endless.append(endless)
    output.backward()
    optimizer.step()
    return loss, huge, endless


def train():
    meter = Meter()
    while True:
        train_step(report["steps"] // 100, meter)  # a line of a call that never ends
        torch.gpu["done_ms"] = torch.gpu["queued_ms"] - 5  # it comes a little behind
        report["steps"] += 1
        model._modules["last"].nans = int(report["steps"] >= 30)
        time.sleep(0.001)


def capture():
    """Every other step is one in which nothing may be asked of the GPU."""
    while True:
        torch.gpu["capturing"] = report["steps"] % 2 == 0
        try:
            train_step(0, Meter())
        except AssertionError:
            report["failed"] += 1
        torch.gpu["done_ms"] = torch.gpu["queued_ms"]
        report["steps"] += 1
        time.sleep(0.001)


whole = []  # not empty: the model is called as a whole


def part():
    """A part is called on its own first: that is what tracing sees when it begins inside a call."""
    while True:
        (model if whole else model._modules["middle"])(torch.Tensor()).backward()
        optimizer.step()
        report["steps"] += 1
        time.sleep(0.001)


def infer():
    torch.grad[0] = False
    while True:
        model(torch.Tensor())
        report["steps"] += 1
        time.sleep(0.001)


scenario = sys.argv[1]
if scenario in ("gpu", "capture"):
    torch.gpu["initialized"] = True
if len(sys.argv) > 2:
    sys.path.insert(0, sys.argv[2])
    import probing

    if scenario == "steps":
        optimizer.step = lambda: probing.step(1000 + report["steps"])
    if scenario == "package":
        probing.enable_torch_profiling(mode="full", exprs=["loss@train_step", "meter.value@train_step"])
        assert probing.config["probing.torch.profiling"].startswith("on,rate=1,exprs=")
        try:
            probing.enable_torch_profiling(rat=1)
        except ValueError as error:
            assert "did you mean rate?" in str(error), error
        else:
            raise AssertionError("a wrong option was taken")
report.ready()
{"infer": infer, "capture": capture, "part": part}.get(scenario, train)()
