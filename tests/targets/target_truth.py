"""Spends its time in two functions, left and right, in a way that is hard to sample, and counts the truth.

    target_truth.py calls|recursion|generators|paced HZ|threads|sleeping|native|asyncio

Each kind stresses another way in which a profile can go wrong: stacks that change all the time, a rhythm that
fits the sampling rate, threads that take turns. The counters left and right are nanoseconds on a CPU.
Python 3.6 syntax.
"""

import asyncio
import random
import sys
import threading
import time
import zlib

from report import Report

now = time.perf_counter
dice = random.Random(3)
report = Report("left", "right")


def tiny(x):
    return x + 1


def deep(n):
    return deep(n - 1) if n else 0


def numbers(end):
    while now() < end:
        for i in range(20):
            yield i


def spin(end):
    while now() < end:
        pass


def left_calls(end):
    x = 0
    while now() < end:
        for _ in range(20):
            x = tiny(x)


def left_recursion(end):
    while now() < end:
        deep(40)


def left_generators(end):
    for _ in numbers(end):
        pass


def left_spin(end):
    while now() < end:
        pass


def left_native(end):
    data = b"some text to compress " * 200
    while now() < end:
        zlib.compress(data)


def right_spin(end):
    while now() < end:
        pass


def timed(name, function, seconds):
    start = now()
    function(start + seconds)
    report[name] += int((now() - start) * 1e9)


def alternate(left, pause=0.0):
    while True:
        timed("left", left, dice.uniform(0, 0.01))
        timed("right", right_spin, dice.uniform(0, 0.01))
        if pause:
            time.sleep(dice.uniform(0, pause))


def paced(hz):
    """60 % of each period left, 20 % right, then sleep until the next one begins."""
    period = 1 / hz
    next_start = now()
    while True:
        timed("left", left_spin, 0.6 * period)
        timed("right", right_spin, 0.2 * period)
        next_start += period
        time.sleep(max(0.0, next_start - now()))
        if now() > next_start + period:
            next_start = now()


def on_thread(name, function):
    clock = time.CLOCK_THREAD_CPUTIME_ID
    while True:
        start = time.clock_gettime(clock)
        function(now() + 0.02)
        report[name] += int((time.clock_gettime(clock) - start) * 1e9)


def threads():
    threading.Thread(target=on_thread, args=("left", left_calls), daemon=True).start()
    on_thread("right", right_spin)


async def task(name, function):
    while True:
        timed(name, function, dice.uniform(0, 0.01))
        await asyncio.sleep(0)


async def tasks():
    await asyncio.gather(task("left", left_calls), task("right", right_spin))


kind = sys.argv[1]
report.ready()
if kind == "paced":
    paced(float(sys.argv[2]))
elif kind == "threads":
    threads()
elif kind == "asyncio":
    asyncio.new_event_loop().run_until_complete(tasks())
elif kind == "sleeping":
    alternate(left_spin, 0.01)
else:
    alternate(globals()["left_" + kind])
