# Gradients and numbers of tensors, read so that the job lives: still.h says what could go wrong and why this
# cannot. Runs in the target, on a thread of the probe. Python 3.6 syntax, built-in modules only.
import sys
import time

from .describe import Refused

NOT_NOW = object()
POLL = 0.0005  # seconds between two looks for a fit moment
MOST_WAIT = 5.0  # seconds for one, in code that somebody typed
NOTE = "no moment without a backward pass came"


class NotStill(Refused):
    """No moment came in which a gradient could be read."""


def when_still(otherwise, function, *arguments):
    """Where there is no GIL, this is not replaced: nothing orders what threads do."""
    return otherwise


def when_outside(otherwise, name, function, *arguments):
    return otherwise


def numbers_of(otherwise, tensor, getter, dtypes, first):
    return None if getter is None else otherwise


def loaded_torch():
    """torch when the job has imported it, all of it."""
    torch = sys.modules.get("torch")
    spec = getattr(torch, "__spec__", None)
    return None if torch is None or getattr(spec, "_initializing", False) else torch


def read_still(function, arguments, until):
    """function(*arguments) at a moment when no thread is in a backward pass. The function is native."""
    while True:
        value = when_still(NOT_NOW, function, *arguments)
        if value is not NOT_NOW:
            return value
        if time.perf_counter() >= until:
            raise NotStill("%s within the time limit: try again, or at the end of a step" % NOTE)
        time.sleep(POLL)


class Sums(object):
    """Of the numbers of one tensor."""

    def __init__(self):
        self.count = self.nonfinite = 0
        self.total = self.squares = 0.0
        self.smallest, self.largest = float("inf"), float("-inf")

    def add(self, total, squares, nonfinite, smallest, largest):
        self.total += total
        self.squares += squares
        self.nonfinite += nonfinite
        self.smallest, self.largest = min(self.smallest, smallest), max(self.largest, largest)


def number_types(torch):
    names = ("float32", "float64", "float16", "bfloat16", "complex64", "complex128")
    return tuple(getattr(torch, name, None) for name in names)


def sums_of(torch, tensor, getter, until, pause):
    """Sums of a tensor's numbers, or of its gradient's with a getter; None when they are not here to be read.
    pause() is called while the GIL may be given up; when it says False, there is no time for more."""
    dtypes, sums, at = number_types(torch), Sums(), 0
    while True:
        with torch._C.DisableTorchFunction():
            found = numbers_of(NOT_NOW, tensor, getter, dtypes, at)
        if found is None:
            return None
        if found is NOT_NOW:
            if time.perf_counter() >= until:
                raise NotStill(NOTE)
            time.sleep(POLL)
            continue
        at, sums.count = found[:2]
        sums.add(*found[2:7])
        if at >= sums.count:
            return sums
        tensor, getter = found[7], None  # ours now: it may be looked at in peace
        del found
        if not pause():
            raise NotStill("the time limit was reached")


# ── code that somebody typed ─────────────────────────────────────────────────────────────────


class StillGradients(object):
    """A torch function mode of the evaluating thread, and of no other: each .grad and .grad_fn that its code
    asks for, or sets, waits for a moment when no thread is in a backward pass."""

    def __init__(self, torch):
        self.torch = torch
        names = ("grad", "_grad", "grad_fn")
        self.guarded = [vars(base).get(name) for base in torch.Tensor.__mro__ for name in names]
        self.guarded = [one for one in self.guarded if hasattr(type(one), "__set__")]

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        owner = getattr(function, "__self__", None)
        if any(owner is one for one in self.guarded) and 1 <= len(arguments) <= 2 and not keywords:
            with self.torch._C.DisableTorchFunction():
                return read_still(function, arguments, time.perf_counter() + MOST_WAIT)
        return function(*arguments, **(keywords or {}))


still_modes = []  # of the evaluation under way


def guard_gradients():
    """Before code is evaluated."""
    torch = loaded_torch()
    push = getattr(getattr(torch, "_C", None), "_push_on_torch_function_stack", None)
    if push is None or hasattr(when_still, "__code__"):
        return  # no torch, or one without modes, or no GIL
    push(StillGradients(torch))
    still_modes.append(torch)


def unguard_gradients():
    """After it, on the same thread, however it ended."""
    while still_modes:
        torch = still_modes.pop()
        if torch._C._len_torch_function_stack():
            torch._C._pop_torch_function_stack()
