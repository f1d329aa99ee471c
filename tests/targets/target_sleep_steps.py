"""Makes a step every millisecond or so and counts them; needs next to no CPU."""

import time

from report import Report

report = Report("loops")
report.ready()
while True:
    time.sleep(0.001)
    report["loops"] += 1
