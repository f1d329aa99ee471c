"""A profiling timer of 1 kHz with a Python handler, while the main thread computes."""

import signal

from report import Report

report = Report("ticks", "loops")


def on_tick(signum, frame):
    report["ticks"] += 1


signal.signal(signal.SIGPROF, on_tick)
signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
report.ready()
while True:
    sum(range(200))
    report["loops"] += 1
