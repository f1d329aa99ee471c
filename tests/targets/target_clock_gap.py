"""Reads the clock in a tight Python loop and remembers the largest gap: how long the main thread was
held, as the job itself sees it. With an argument, that many threads in all; the others wait."""

import sys
import threading
import time

from report import Report


def measure(report):
    clock = time.perf_counter
    last = clock()
    while True:
        now = clock()
        if now - last > 0.00001:  # anything shorter is the loop itself
            report["gap_ns"] = max(report["gap_ns"], int((now - last) * 1e9))
            now = clock()
        last = now


count = int(sys.argv[1]) if len(sys.argv) > 1 else 1
never = threading.Event()
for _ in range(count - 1):
    threading.Thread(target=never.wait, daemon=True).start()
report = Report("gap_ns")
report.ready()
measure(report)
