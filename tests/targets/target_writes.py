"""Prints all the time, through Python and past it: nothing else may come between. Python 3.6."""

import os
import time

from report import Report

report = Report("loops")
report.ready()
number = 0
while True:
    number += 1
    print("job", number, flush=True)
    os.write(1, b"raw\n")
    report["loops"] = number
    time.sleep(0.005)
