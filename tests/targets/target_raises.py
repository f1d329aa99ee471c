"""Raises and handles exceptions; when the file it is given appears, a thread dies of one. Python 3.6."""

import os
import sys
import threading
import time

from report import Report


def risky(number):
    detail = {"number": number}
    if number % 2:
        raise ValueError("odd %d" % number)
    raise KeyError(detail["number"])


def worker():
    secret = 42
    deeper(secret + 1)


def deeper(value):
    raise RuntimeError("worker failed")


report = Report("loops")
report.ready()
loops = 0
started = False
while True:
    loops += 1
    try:
        risky(loops)
    except (ValueError, KeyError):
        report["loops"] = loops
    if not started and os.path.exists(sys.argv[1]):
        started = True
        threading.Thread(target=worker).start()
    time.sleep(0.002)
