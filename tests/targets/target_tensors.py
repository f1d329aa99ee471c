"""Stands still in a function with tensors and arrays of all kinds and says what they are.

    python target_tensors.py TRUTH

Writes to the file TRUTH, as JSON, {name: [text, …]} of lists of them, each text as `backtrace --locals`
should show it. Needs torch and numpy.
"""

# ruff: noqa: F841 (the variables are there to be seen)

import json
import os
import sys

import numpy
import torch

gate = os.pipe()  # nothing ever comes through it


class OwnTensor(torch.Tensor):
    pass


def text(value):
    if value.ndim == 0:  # its value instead
        return "tensor(1)" if isinstance(value, torch.Tensor) else repr(value)
    shape = "(%s)" % (", ".join(map(str, value.shape)) + ("," if len(value.shape) == 1 else ""))
    described = "%s%s %s" % (type(value).__name__, shape, str(value.dtype).replace("torch.", ""))
    return described + (" %s" % value.device if isinstance(value, torch.Tensor) else "")


def publish(variables):
    truth = {}
    for name, value in variables.items():
        truth[name] = [text(item) for item in (value if isinstance(value, list) else [value])]
    with open(sys.argv[1], "w") as file:
        json.dump({"pid": os.getpid(), "variables": truth}, file)


def of_type(dtype):
    try:
        return torch.empty(2, 3, dtype=dtype)
    except RuntimeError:  # quantized ones are made in another way
        return torch.empty(2, 3)


def tensors():
    scalar, vector, matrix = torch.tensor(1), torch.zeros(3), torch.zeros(3, 4)
    five, six = torch.zeros(2, 3, 4, 5, 6), torch.zeros(1, 2, 3, 4, 5, 6)
    empty, no_rows = torch.zeros(0), torch.zeros(0, 7)
    view, transposed, expanded = matrix[1:, ::2], matrix.t(), vector.expand(5, 3)
    channels = torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last)
    learns = torch.zeros(3, 3, requires_grad=True)
    result = learns * 2
    parameter, buffer = torch.nn.Parameter(torch.zeros(11, 13)), torch.nn.Buffer(torch.zeros(2))
    own = torch.zeros(3, 2).as_subclass(OwnTensor)
    nowhere, huge = torch.zeros(4, 5, device="meta"), torch.empty(1 << 20, 1 << 12, device="meta")
    dtypes = sorted({str(v): v for v in vars(torch).values() if isinstance(v, torch.dtype)}.items())
    types = [of_type(dtype) for name, dtype in dtypes]
    types_1, types_2, types_3 = types[:8], types[8:16], types[16:24]
    types_4, types_5, types_6 = types[24:32], types[32:40], types[40:48]
    del dtypes, types
    array, cube = numpy.zeros(3), numpy.zeros((2, 3, 4), dtype="int16")
    number, no_values = numpy.array(1.5, dtype="float32"), numpy.zeros((0, 2), dtype="complex64")
    grid = numpy.matrix([[1, 2], [3, 4]])
    return publish(dict(locals())), os.write(1, b"ready\n"), os.read(gate[0], 1)


tensors()
