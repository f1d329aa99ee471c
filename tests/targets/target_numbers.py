"""Stands still in a function with single numbers of numpy and torch, and says what they are.

    python target_numbers.py TRUTH

Writes to the file TRUTH, as JSON, {"pid": …, "variables": {name: text}}, each as `backtrace --locals`
should show it: repr(), and for tensors their item with all its digits. Needs torch and numpy.
"""

# ruff: noqa: F841 (the variables are there to be seen)

import json
import os
import sys

import numpy as np
import torch

gate = os.pipe()  # nothing ever comes through it

# What a number of fewer bits than Python's is called: the shortest text that is nearest to it.
SHORTEST = {torch.float32: np.float32, torch.float16: np.float16}
DEFAULT = (torch.float32, torch.int64, torch.bool, torch.complex64)


def text(value):
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return "[%s]" % ", ".join(map(text, value))
    if not isinstance(value, torch.Tensor):
        return repr(value)
    shown = str(SHORTEST.get(value.dtype, lambda item: item)(value.item()))
    name = "tensor" if type(value) is torch.Tensor else type(value).__name__
    return "%s(%s%s)" % (name, shown, "" if value.dtype in DEFAULT else ", dtype=%s" % value.dtype)


def publish(variables):
    truth = {name: text(value) for name, value in variables.items()}
    with open(sys.argv[1], "w") as file:
        json.dump({"pid": os.getpid(), "variables": truth}, file)


def numbers(first="foo", second=None, third=True):
    yes, no = np.bool_(True), np.bool_(False)
    byte, short, int_32, int_64, long_long = (
        np.byte(-2),
        np.int16(42),
        np.int32(-43),
        np.int64(44),
        np.longlong(-45),
    )
    ubyte, ushort, uint_32 = np.uint8(250), np.uint16(46), np.uint32(7)
    uint_64, ulong_long = np.uint64(2**64 - 1), np.ulonglong(11)
    half, single, double = np.float16(0.3), np.float32(0.1), np.float64(0.7)
    halves = [np.float16(x) for x in (0, -1.5, 1e-7, 0.00006, 999, float("-inf"), 2**-14, 0.1)]
    singles = [np.float32(x) for x in (0, 1e-5, 1e20, 12345.678, float("nan"), -0.0, 1 / 3)]
    longer, exact = np.longdouble(0.9), np.longdouble("0.1")
    longs = [np.longdouble(x) for x in (0, 1, -2.5, 1e22, 1e-5, float("inf"), 123456.75)]
    complex_64, complex_128, complex_long = (
        np.complex64(0.3 + 5j),
        np.complex128(-1 - 2j),
        np.clongdouble(0.5 + 5j),
    )
    imaginary, whole_complex = np.complex64(2j), np.complex128(1)
    np_text, np_bytes = np.str_("tëxt"), np.bytes_(b"bytes")
    day, minute, nano = np.datetime64("2020-02-29"), np.datetime64("1969-12-31T23:59"), np.datetime64(1, "ns")
    month, year, week, never = (
        np.datetime64("1969-11"),
        np.datetime64("2020"),
        np.datetime64("2020-01-02", "W"),
        np.datetime64("NaT"),
    )
    milli, seconds, hours = (
        np.datetime64("2026-07-01T01:02:03.004"),
        np.timedelta64(3, "s"),
        np.timedelta64(-5, "2h"),
    )
    generic = np.timedelta64(7)
    array_0, array_32, array_bool = np.array(1.5), np.array(1.5, dtype="float32"), np.array(True)
    array_int = np.array(-3, dtype="int8")
    loss, precise, count, small = (
        torch.tensor(0.25),
        torch.tensor(0.1, dtype=torch.float64),
        torch.tensor(7),
        torch.tensor(-7, dtype=torch.int8),
    )
    third_32, half_tensor, flag = (
        torch.tensor(1 / 3),
        torch.tensor(0.3, dtype=torch.float16),
        torch.tensor(True),
    )
    brain = torch.tensor(1.5, dtype=torch.bfloat16)
    of_vector = torch.arange(10)[7]
    learned, parameter = torch.tensor(0.5, requires_grad=True), torch.nn.Parameter(torch.tensor(0.75))
    size, no_size, mixed = torch.zeros(2, 3).shape, torch.tensor(1).shape, [torch.Size([1]), torch.float32]
    kind, cpu, cuda = torch.bfloat16, torch.device("cpu"), torch.device("cuda", 1)
    return publish(dict(locals())), os.write(1, b"ready\n"), os.read(gate[0], 1)


numbers()
