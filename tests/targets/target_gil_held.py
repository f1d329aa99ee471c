"""Another thread takes the GIL in C and never gives it back: nothing in Python runs any more."""

import ctypes
import threading
import time

from report import Report


def hold():
    time.sleep(0.2)  # until the ready line is out
    ctypes.PyDLL(None).sleep(3600)


report = Report("loops")
threading.Thread(target=hold, name="holder", daemon=True).start()
report.ready()
while True:
    report["loops"] += 1
