"""Starts children that compute while it waits for them."""

import os
import sys

from report import Report


def compute(report, name):
    parent = os.getppid()
    while os.getppid() == parent:  # and end with it
        for _ in range(100):
            sum(range(1000))
        report[name] += 1


count = int(sys.argv[1])
names = ["child%d" % i for i in range(count)]
report = Report(*names)
children = []
for name in names:
    child = os.fork()
    if child == 0:
        compute(report, name)
        os._exit(0)
    children.append(child)
report.ready()
for child in children:
    os.waitpid(child, 0)
