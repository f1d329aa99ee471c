"""Sleeps in the main thread and does nothing else."""

import time

from report import Report

secret = "forty-two"
report = Report("loops")
report.ready()
while True:
    time.sleep(3600)
    report["loops"] += 1
