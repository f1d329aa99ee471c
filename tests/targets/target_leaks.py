"""Keeps more and more objects, while another thread makes tuples that take their time."""

import threading
import time

from report import Report

report = Report("loops", "tuples", "failed")


class Record(object):
    def __init__(self, number):
        self.number = number


class Keeper(object):
    def __init__(self):
        self.records = []


def slowly():
    """More than a tuple has room for at first, so that it has to grow."""
    for i in range(30):
        time.sleep(0.0002)
        yield i


def make_tuples():
    while True:
        try:
            assert tuple(slowly()) == tuple(range(30))
            report["tuples"] += 1
        except SystemError:
            report["failed"] += 1


def make_callback(number):
    return lambda: number


def keep():
    keeper, callbacks, arrays = Keeper(), [], []
    while True:
        keeper.records.append(Record(report["loops"]))
        callbacks.append(make_callback(report["loops"]))
        arrays.append(bytes(8000))  # the collector does not know them, as it does not NumPy's arrays
        report["loops"] += 1
        if report["loops"] == 1:
            report.ready()
        time.sleep(0.001)


threading.Thread(target=make_tuples, daemon=True).start()
keep()
