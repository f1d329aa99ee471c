"""Prints all the time, into a pipe that takes its time: threads are often inside of print(). Python 3.6."""

import os
import sys
import threading
import time

from report import Report

report = Report("loops")


class Slow:
    """Lets other threads run while something is written."""

    def write(self, text):
        time.sleep(0.001)
        report["loops"] += 1

    def flush(self):
        pass


def print_all_the_time():
    while True:
        print("job", os.getpid(), report["loops"], flush=True)


class Rigid(Slow):
    """None of its methods can be replaced."""

    __slots__ = ()

    @property
    def __dict__(self):
        raise AttributeError("none")


report.ready()
sys.stdout = Rigid() if sys.argv[1:] == ["rigid"] else Slow()
for _ in range(3):
    threading.Thread(target=print_all_the_time, daemon=True).start()
print_all_the_time()
