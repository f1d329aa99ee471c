"""Computes for a given number of rounds and prints one final number, as a job prints its result."""

import sys

from report import Report

report = Report("loops")
rounds = int(sys.argv[1])
report.ready()
x = 1
for i in range(rounds):
    for _ in range(1000):
        x = (x * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
    report["loops"] = i
sys.stdout.write("result %d\n" % x)
