"""Two functions that do the same: a line of one may be watched, the other tells what that costs the rest.

Each call of work() takes some 10 µs, so the line that calls it runs 100,000 times a second. Python 3.6.
"""

import time

from report import Report

ROUNDS = 1000
# What others take of the machine meanwhile is not our cost.
clock = getattr(time, "thread_time", time.perf_counter)


def work(numbers):
    return sum(numbers)


def watched(numbers):
    total = 0
    for _ in range(ROUNDS):
        total += work(numbers)  # the line
    return total


def unwatched(numbers):
    total = 0
    for _ in range(ROUNDS):
        total += work(numbers)
    return total


def call_takes(numbers):
    """The best of several: what else happens on the machine makes it longer, and never shorter."""
    best = 1.0
    for _ in range(10):
        begun = clock()
        for _ in range(100):
            work(numbers)
        best = min(best, (clock() - begun) / 100)
    return best


def numbers_for(seconds):
    """As many as take that long to add."""
    count = 100
    while call_takes(list(range(count))) < seconds:
        count += 20
    return list(range(count))


report = Report("loops", "watched_ns", "unwatched_ns")
numbers = numbers_for(1e-5)
report.ready()
spent = [0.0, 0.0]
loops = 0
while True:
    begun = clock()
    watched(numbers)
    middle = clock()
    unwatched(numbers)
    spent[0] += middle - begun
    spent[1] += clock() - middle
    loops += 1
    report["watched_ns"] = int(spent[0] * 1e9)
    report["unwatched_ns"] = int(spent[1] * 1e9)
    report["loops"] = loops
