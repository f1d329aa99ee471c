"""Trains for a while, waits for the file GO, ends as it is told: target_ends.py PACKAGE HOW."""

import os
import sys
import time

sys.path.insert(0, sys.argv[1])
import probing  # noqa: E402
from report import Report  # noqa: E402

report = Report("loops")


class Diverged(Exception):
    pass


def train_step(number):
    probing.log(step=number, loss=1.0 / (number + 1))


def wait_in_here():
    report.ready()
    while not os.path.exists(os.environ["GO"]):
        report["loops"] += 1
        time.sleep(0.01)


for step in range(18):
    train_step(step)
wait_in_here()
if sys.argv[2] == "raise":
    sys.stderr = open(os.devnull, "w")
    raise Diverged("loss is nan")
if sys.argv[2] == "exit":
    sys.exit(7)
if sys.argv[2] == "abort":
    os.abort()
