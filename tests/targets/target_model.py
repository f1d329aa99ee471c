"""A loop with a `model` in it, as the READMEs ask about one. Python 3.6."""

import time

from report import Report


class Model:
    training = True


model = Model()
report = Report("loops")
report.ready()
while True:
    report["loops"] += 1
    time.sleep(0.001)
