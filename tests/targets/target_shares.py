"""Spends about 70, 20 and 10 % of its time in three functions and counts how much it really was.

The lengths vary at random: a sampler whose period fits to a fixed rhythm would see only part of it.
"""

import random
import sys
import time

from report import Report

# Not perf_counter_ns, which 3.6 lacks: the loops must call nothing of Python's own.
now = time.perf_counter


def hot(end):
    while now() < end:
        pass


def warm(end):
    while now() < end:
        pass


def cold(end):
    while now() < end:
        pass


def train(report):
    dice = random.Random(1)
    while True:
        for function, name, mean_ms in ((hot, "hot", 7), (warm, "warm", 2), (cold, "cold", 1)):
            start = now()
            function(start + dice.uniform(0, 2 * mean_ms) / 1e3)
            report[name] += int((now() - start) * 1e9)


report = Report("hot", "warm", "cold")
report.ready()
if "--idle" in sys.argv:
    time.sleep(3600)
train(report)
