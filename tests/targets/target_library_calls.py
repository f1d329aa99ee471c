"""Calls a library, which calls the program's own code: where a debugger should stop. Python 3.6."""

import json
import time

from report import Report


class Weight:
    def __init__(self, value):
        self.value = value


def encode(weight):
    number = weight.value
    return number


def save(weights, report):
    text = json.dumps(weights, indent=1, default=encode)  # the library
    report["saved"] = len(text)  # behind the library
    return text


report = Report("saved", "rounds")
report.ready()
while True:
    save([Weight(1), Weight(2)], report)
    report["rounds"] += 1
    time.sleep(0.001)
