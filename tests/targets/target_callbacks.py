"""Stands still where Python calls C which calls Python.

python target_callbacks.py SORTED|QSORT|SPIN

SORTED waits in a key function of sorted(), QSORT in a comparison that the C library calls; SPIN
goes through both for ever.
"""

import ctypes
import os
import sys

from report import Report

gate = os.pipe()  # nothing ever comes through it
libc = ctypes.CDLL(None)
Compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))


def innermost():
    if sys.argv[1] == "SPIN":
        return 0
    report.ready()
    os.read(gate[0], 1)
    return 0


def key(item):
    return inner_of_key() + item


def inner_of_key():
    return innermost()


def sort():
    return sorted([3, 1, 2], key=key)


def compare(left, right):
    return innermost()


def quick_sort():
    numbers = (ctypes.c_int * 3)(3, 1, 2)
    libc.qsort(numbers, 3, ctypes.sizeof(ctypes.c_int), Compare(compare))


def spin():
    report.ready()
    while True:
        sort()
        quick_sort()
        report["loops"] += 1


report = Report("loops")
{"SORTED": sort, "QSORT": quick_sort, "SPIN": spin}[sys.argv[1]]()
