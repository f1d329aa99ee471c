"""Ranks that are all in the same function at any moment: which one it is follows from the machine's clock."""

import time

from report import Report

TURN_S = 0.02


def turn():
    return int(time.time() / TURN_S)


def rest():
    """Until the next turn."""
    time.sleep(TURN_S - time.time() % TURN_S + 1e-4)


def north():
    rest()


def east():
    rest()


def south():
    rest()


def west():
    rest()


def walk():
    while True:
        (north, east, south, west)[turn() % 4]()


report = Report("steps")
report.ready()
walk()
