"""Spends about 70, 20 and 10 % of its time in three functions and counts how much it really was.

The lengths vary at random: a sampler whose period fits to a fixed rhythm would see only part of it.
"""

import random
import sys
import time

from report import Report

try:
    now_ns = time.perf_counter_ns
except AttributeError:  # Python 3.6

    def now_ns():
        return int(time.perf_counter() * 1e9)


def hot(end_ns):
    while now_ns() < end_ns:
        pass


def warm(end_ns):
    while now_ns() < end_ns:
        pass


def cold(end_ns):
    while now_ns() < end_ns:
        pass


def train(report):
    dice = random.Random(1)
    while True:
        for function, name, mean_ms in ((hot, "hot", 7), (warm, "warm", 2), (cold, "cold", 1)):
            start_ns = now_ns()
            function(start_ns + int(dice.uniform(0, 2 * mean_ms) * 1e6))
            report[name] += now_ns() - start_ns


report = Report("hot", "warm", "cold")
report.ready()
if "--idle" in sys.argv:
    time.sleep(3600)
train(report)
