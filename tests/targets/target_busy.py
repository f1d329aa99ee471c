"""A busy Python loop which knows its result: any number that comes out different is counted."""

from report import Report

MASK = (1 << 64) - 1


def block(seed):
    x = seed
    for _ in range(2000):
        x = (x * 6364136223846793005 + 1442695040888963407) & MASK
    return x


def train():
    expected = block(1)
    report = Report("loops", "wrong")
    step = 0
    report.ready()
    while True:
        step += 1
        if block(1) != expected:
            report["wrong"] += 1
        report["loops"] = step


train()
