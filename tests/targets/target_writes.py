"""Prints all the time, through Python and past it, and counts what is not its own any more. Python 3.6."""

import _thread
import os
import posix
import sys
import time

from report import Report


def own():
    """What others may have put something else in place of."""
    names = ("write", "fork", "system", "_exit", "kill")
    found = [getattr(module, name) for module in (os, posix) for name in names] + [_thread.start_new_thread]
    return found + [sys.stdout, sys.stderr, sys.gettrace()] + list(sys.meta_path)


report = Report("loops", "foreign", "modules")
at_first = own()
report.ready()
number = 0
while True:
    number += 1
    print("job", number, flush=True)
    os.write(1, b"raw\n")
    now = own()
    same = [one is another for one, another in zip(now, at_first)]
    report["foreign"] = same.count(False) + abs(len(now) - len(at_first))
    report["modules"] = sum(name not in sys.builtin_module_names for name in list(sys.modules))
    report["loops"] = number
    time.sleep(0.02)  # nobody may read what it prints for a minute
