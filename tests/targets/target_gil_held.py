"""Another thread takes the GIL in C and never gives it back: nothing in Python runs any more."""

import ctypes
import threading
import time

from report import Report


def hold_for_ever(report):
    c = ctypes.PyDLL(None)
    report["held"] = 1
    c.sleep(3600)  # PyDLL keeps the GIL


report = Report("held")
report.ready()
threading.Thread(target=hold_for_ever, args=(report,), name="holder", daemon=True).start()
while True:
    time.sleep(0.001)
