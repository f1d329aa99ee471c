"""A thread that Python knows nothing about beside the main one, which waits."""

import ctypes
import time

from report import Report

report = Report("loops")
libc = ctypes.CDLL(None)
thread = ctypes.c_ulong()
# A C function as the body: it must not come back to Python.
body = ctypes.cast(libc.sleep, ctypes.c_void_p)
assert libc.pthread_create(ctypes.byref(thread), None, body, ctypes.c_void_p(3600)) == 0
report.ready()
while True:
    report["loops"] += 1
    time.sleep(0.01)
