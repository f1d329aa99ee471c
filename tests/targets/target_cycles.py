"""What jobs are made of, one kind each, with forks and signals all the time: target_cycles.py KIND.

Counts children that ended well and badly, signals that came, and interrupted system calls. Python 3.6 syntax.
"""

import os
import select
import signal
import sys
import threading
import time

from report import Report

report = Report("loops", "children", "failed", "signals", "eintr", "wrong")
kind = sys.argv[1]
signal.signal(signal.SIGUSR1, lambda number, frame: report.__setitem__("signals", report["signals"] + 1))


def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    while True:
        try:
            status = os.waitpid(pid, 0)[1]
            break
        except InterruptedError:  # by a signal of the test: Python 3.4 does not wait on
            pass
    if status >> 8 == 7:
        report["children"] += 1
    else:
        report["failed"] += 1


def busy():
    if sum(i * i for i in range(3000)) != 8995500500:
        report["wrong"] += 1


def sleeps():
    time.sleep(0.003)


def waits():
    """A system call whose end is known: shorter than asked for is an interrupt that was not restarted. Python
    3.4 ends it for every signal, as those that the test sends."""
    begun = time.monotonic()
    try:
        select.select([], [], [], 0.003)
    except InterruptedError:
        report["eintr"] += sys.version_info >= (3, 5)
    if time.monotonic() - begun < 0.0029 and sys.version_info >= (3, 5):
        report["eintr"] += 1


def allocates():
    kept = [bytes(i % 4000) for i in range(300)]
    if len(kept) != 300:
        report["wrong"] += 1


def other_thread():
    while True:
        busy()
        time.sleep(0.001)


if kind == "threads":
    for _ in range(3):
        threading.Thread(target=other_thread, daemon=True).start()
step = {"busy": busy, "sleeps": sleeps, "waits": waits, "allocates": allocates, "threads": busy}[kind]
report.ready()
while True:
    step()
    fork()
    report["loops"] += 1
