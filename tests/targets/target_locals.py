"""Stands still in a function with variables of all built-in types and says what they are.

    python target_locals.py TRUTH

Writes to the file TRUTH, as JSON, {function: {name: repr}} of the frames below <module>; prints its
ready line and waits in that very call. Python 3.6 syntax.
"""

# ruff: noqa: F841 (the variables are there to be seen)

import json
import os
import sys
import threading

gate = os.pipe()  # nothing ever comes through it


class Thing:
    def __init__(self):
        self.name = "thing"
        self.number = 5


def publish(frame):
    truth = {}
    while frame.f_code.co_name != "<module>":
        truth[frame.f_code.co_name] = {name: repr(value) for name, value in frame.f_locals.items()}
        frame = frame.f_back
    with open(sys.argv[1], "w") as file:
        json.dump({"pid": os.getpid(), "frames": truth}, file)


def scalars():
    nothing, yes, no, dots = None, True, False, ...
    zero, one, minus, big = 0, 1, -1, 2**31
    bigger, biggest, negative = 2**64, 10**63 + 7, -(3**100)
    huge = 1 << 1000
    half, tenth, tiny, large, whole = 0.5, 0.1, 1.5e-7, 1e22, 3.0
    minus_zero, infinite, nan = -0.0, float("-inf"), float("nan")
    text, empty, quote, both = "hello", "", "it's", "'\""
    escapes, latin, cyrillic, packages = "a\n\t\\\x00\x7f", "größe", "данные", "📦 変数"
    long_text, long_bytes = "x" * 1000, b"y" * 1000
    data, no_data, high = b"bytes", b"", b"\x00\xff'\n"
    return containers(1, 2, k=3)


def containers(first, *rest, **named):
    numbers, none, nested = [1, 2, 3], [], [[1, [2, [3]]], (4,), {5}]
    pair, single, unit = (1, "two"), (1,), ()
    table, general, no_table = {"a": 1, "b": [2]}, {1: "x", (2, 3): None}, {}
    shrunk = {i: i for i in range(20)}
    for i in range(17):
        del shrunk[i]
    mixed = {"a": 1}
    mixed[2] = "b"
    shared = vars(Thing())
    group, frozen, no_group, cold = {1, 2, 3}, frozenset([7]), set(), frozenset()
    gone = {1, 2, 3, 4}
    gone.discard(2)
    many, many_keys = list(range(100000)), {i: str(i) for i in range(100000)}
    itself = []
    itself.append(itself)
    unbound = 1
    del unbound
    return cells(5)


def cells(argument):
    outer_value = "outer"
    later = None

    def inner(x):
        nonlocal later
        later = [outer_value, argument]
        return others(x)

    return inner(6)


def others(x):
    thing, function, built_in, module, klass, error_class = Thing(), publish, len, json, Thing, ValueError
    event = threading.Event()
    error = ValueError("wrong")
    text_of_3_mb = "ä" * (3 << 20)
    return next(generator(x))


def generator(x):
    in_generator = x + 1
    yield publish(sys._getframe()), os.write(1, b"ready\n"), os.read(gate[0], 1)


if __name__ == "__main__":
    scalars()
