"""A program with another libpython in it that nobody starts."""

import ctypes
import sys

from report import Report

if sys.argv[1] != "-":
    ctypes.CDLL(sys.argv[1], mode=getattr(ctypes, sys.argv[2]))
report = Report("loops")
report.ready()
while True:
    report["loops"] += 1
