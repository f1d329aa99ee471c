"""One thread that computes and counts, among many that wait."""

import sys
import threading

from report import Report


def wait(event):
    event.wait()


def compute(report):
    while True:
        for _ in range(100):
            sum(range(100))
        report["loops"] += 1


report = Report("loops")
never = threading.Event()
for i in range(int(sys.argv[1]) - 1):
    threading.Thread(target=wait, args=(never,), name="waiter-%d" % i, daemon=True).start()
report.ready()
compute(report)
