"""Imports probing when it is told to and writes rows: target_tables.py SCENARIO."""

import gc
import sys
import threading
import time

from report import Report

sys.path.insert(0, sys.argv[2])
report = Report("loops", "children", "hooked")
BIG = "x" * (1 << 20)
VALUES = [
    (0, 0.0, False, "", b""),
    (2**63 - 1, 1e308, True, "😀 é \0 \n \"'", b"\x00\xff"),
    (-(2**63), float("nan"), None, "same", None),
    (None, float("inf"), True, None, b"same"),
    (7, -0.0, False, BIG, BIG.encode()),
    (None, None, None, None, None),
]


def exact():
    import probing

    @probing.table(name="exact")
    class Row(object):
        i: int
        d: float
        b: bool
        s: str
        y: bytes

    for values in VALUES:
        assert Row(*values).save()
    assert Row.append_many([Row(n, n, n % 2 == 0, str(n), b"") for n in range(100)]) == 100


def errors():
    import probing

    @probing.table
    class Picky(object):
        number: int
        real: float
        flag: bool
        text: str
        raw: bytes

    good = dict(number=1, real=1.0, flag=True, text="", raw=b"")
    said = []
    wrong = [
        ("number", 2**63),
        ("number", "1"),
        ("number", 1.5),
        ("real", "1"),
        ("real", 10**400),
        ("flag", 2),
    ]
    wrong += [("text", 1), ("text", b""), ("raw", ""), ("text", "x" * (17 << 20))]
    for name, value in wrong:
        try:
            Picky(**dict(good, **{name: value})).save()
        except (TypeError, ValueError, OverflowError) as error:
            said.append("%s: %s" % (type(error).__name__, error))
    try:

        @probing.table(name="picky")
        class Other(object):
            number: float

    except ValueError as error:
        said.append("%s: %s" % (type(error).__name__, error))
    probing.log(said="\n".join(said))


class Index(object):
    """Like a scalar of numpy or torch."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return int(self.value)

    def __float__(self):
        return float(self.value)


def words():
    import probing

    probing.step(41)
    assert probing.step() == 42
    probing.log(epoch=3, loss=0.5, note="warm", skipped=None)
    probing.log(step=43, loss=Index(1), accuracy=True)
    probing.event("checkpoint", path="a", size=3)

    @probing.span("inner", part=1)
    def inner():
        return 5

    with probing.span("outer"):
        assert inner() == 5
    assert probing.config["probing.table_rows"] == "10000"
    probing.config["probing.table_rows"] = 500
    assert probing.config["probing.table_rows"] == "500"
    try:
        probing.config["probing.table_row"] = 1
    except ValueError as error:
        assert "probing.table_rows" in str(error), error
    else:
        raise AssertionError("a wrong name was taken")


def wait_for_hooks():
    while not any(getattr(f, "__name__", "") == "gc_event" for f in gc.callbacks):
        time.sleep(0.01)


def hooks():
    wait_for_hooks()
    for _ in range(3):
        gc.collect()
    thread = threading.Thread(target=lambda: 1 / 0)
    kept, sys.stderr = sys.stderr, open("/dev/null", "w")
    thread.start()
    thread.join()
    try:
        {}["uncaught"]
    except KeyError as error:  # as Python does before it calls sys.excepthook
        sys.last_type, sys.last_value, sys.last_traceback = sys.exc_info()
        if sys.version_info >= (3, 12):
            sys.last_exc = error
    sys.stderr = kept


def fork():
    import os

    import probing

    @probing.table(name="family")
    class Row(object):
        who: str
        number: int

    Row("parent", 0).save()
    child = os.fork()
    if child == 0:
        Row("child", 1).save()
        while True:
            time.sleep(1)
    report["children"] = child
    Row("parent", 2).save()


def nothing():
    pass


if len(sys.argv) > 3:
    exec(sys.argv[3])  # before anything else; it may import probing


def traces():
    """How much of a probe can be seen from in here."""
    wrapped = [sys.excepthook, getattr(threading, "excepthook", None)]
    modules = [name for name in list(sys.modules) if "probing" in name]
    return len(gc.callbacks) + sum(hasattr(f, "__wrapped__") for f in wrapped) + len(modules)


globals()[sys.argv[1]]()
report.ready()
while True:
    time.sleep(0.01)
    report["hooked"] = traces()
    report["loops"] += 1
