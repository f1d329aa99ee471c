"""Functions that compilers made: python target_compiled.py numba|cython. The latter imports `tillwork`."""

import sys
import time

from report import Report


def with_numba():
    import numba

    @numba.njit
    def innermost(x, n):
        s = 0.0
        for i in range(n):
            s += (x * i) % 7.0
        return s

    @numba.njit
    def outer(n):
        return innermost(2.0, n)

    outer(10)
    return outer


def with_cython():
    import tillwork

    return tillwork.sell


def work(function):
    while True:
        function(100000)
        report["loops"] += 1


report = Report("loops")
function = {"numba": with_numba, "cython": with_cython}[sys.argv[1]]()
report.ready()
time.sleep(0.01)
work(function)
