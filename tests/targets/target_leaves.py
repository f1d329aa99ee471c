"""Runs until the file GO is there, and ends slowly, until DONE is. Python 3.6 syntax."""

import atexit
import os

from report import Report

report = Report("loops", "leaving")


def leave_slowly():
    while not os.path.exists(os.environ["DONE"]):
        report["leaving"] += 1


report.ready()
while not os.path.exists(os.environ["GO"]):
    report["loops"] += 1
atexit.register(leave_slowly)  # this late, so that it runs before what the probe has registered
