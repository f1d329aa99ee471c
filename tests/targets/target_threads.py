"""Many threads: most of them wait, some compute, each with a name."""

import sys
import threading
import time

from report import Report


def wait(event):
    event.wait()


def compute(report, name):
    while True:
        sum(range(1000))
        report[name] += 1
        time.sleep(0.001)


count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
report = Report("loops", "worker")
never = threading.Event()
for i in range(count - 2):
    threading.Thread(target=wait, args=(never,), name="waiter-%d" % i, daemon=True).start()
threading.Thread(target=compute, args=(report, "worker"), name="worker", daemon=True).start()
report.ready()
compute(report, "loops")
