"""Threads that allocate, load and unload libraries all the time: the worst moment to be entered."""

import _ctypes
import glob
import os
import sysconfig
import threading

from report import Report


def some_libraries():
    folder = os.path.join(sysconfig.get_paths()["stdlib"], "lib-dynload")
    names = ("_bisect", "_heapq", "_csv", "_opcode", "_queue")
    found = [path for name in names for path in glob.glob(os.path.join(folder, name + ".*.so"))]
    return found or ["libutil.so.1"]


def allocate(report):
    while True:
        blocks = [bytearray(size) for size in (64, 700, 5000, 40000, 300000)]
        blocks.reverse()
        del blocks
        report["allocations"] += 1


def load(report, libraries):
    while True:
        for path in libraries:
            _ctypes.dlclose(_ctypes.dlopen(path, os.RTLD_NOW))
            report["loads"] += 1


def spawn(report):
    while True:
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
        report["threads"] += 1


report = Report("allocations", "loads", "threads")
libraries = some_libraries()
for body, arguments in ((load, (report, libraries)), (spawn, (report,)), (allocate, (report,))):
    threading.Thread(target=body, args=arguments, daemon=True).start()
report.ready()
load(report, libraries)
