"""Saves rows with the values that get lost most easily: target_values.py PACKAGE."""

import sys
import time

sys.path.insert(0, sys.argv[1])
import probing  # noqa: E402
from report import Report  # noqa: E402

report = Report("loops")


@probing.table(name="value")
class Value:
    timestamp: int
    i: int
    d: float
    b: bool
    s: str
    x: bytes


NS = 1767225600123456789  # 2026-01-01 00:00:00.123456789
BIG = "é😀" + "m" * (1 << 20)
assert Value(NS, 2**63 - 1, float("nan"), True, "", b"").save()
assert Value(NS + 1, -(2**63), float("inf"), False, '😀,"a"\nb | \\ \t', b"\x00\xff'\"\\a").save()
assert Value(NS + 2, None, None, None, None, None).save()
assert Value(NS + 3, 0, -0.0, False, BIG, BIG.encode()).save()
assert Value(NS + 4, 1, 0.1, True, "NULL", b"NULL").save()

report.ready()
while True:
    report["loops"] += 1
    time.sleep(0.01)
