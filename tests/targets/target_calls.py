"""Calls and returns as fast as Python can. Every line that calls a function names it.

A stack read at any moment must be one that is possible: in every frame but the innermost, the
current line is the one that calls the next frame's function.
"""

import sys

from report import Report


def leaf(n):
    return n + 1


def left(n):
    return leaf(n)


def right(n):
    if n % 2:
        return left(n)
    return leaf(n)


def numbers(n):
    for i in range(3):
        yield right(n + i)


def total(n):
    result = 0
    for value in numbers(n):
        result += value
    return result


def deep(n):
    if n:
        return deep(n - 1)
    return total(n)


def key(n):
    return deep(n)


def spread(n):
    a = left(n)
    b = right(n)
    c = total(n)
    return max([a, b, c], key=key)


def loop(report):
    n = 0
    while True:
        n = (n + 1) % 5
        spread(n)
        deep(n)
        report["loops"] += 1


sys.setswitchinterval(0.001)
report = Report("loops")
report.ready()
loop(report)
