"""Takes what the tracer hangs into PyTorch out of this process and puts it back, between two steps and in
microseconds, where changing the setting takes milliseconds of another thread. So two states can take turns
faster than the speed of a shared machine changes.

What is exchanged is all that the setting changes for a process that only trains: the function behind
nn.Module.__call__, the hooks of the optimizers and torch.autograd.backward.
"""

from __future__ import annotations

import ctypes
import types
from collections.abc import Callable

import torch
from torch.optim import optimizer as optimizers

# Of PyTypeObject: a variable object's head, tp_name, tp_basicsize, tp_itemsize and tp_dealloc are before it.
VECTORCALL_OFFSET = ctypes.c_ssize_t.from_address(id(types.FunctionType) + 7 * ctypes.sizeof(ctypes.c_void_p))
PLACES = (
    (torch.autograd, "backward"),
    (optimizers, "_global_optimizer_pre_hooks"),
    (optimizers, "_global_optimizer_post_hooks"),
)


def called_for(function: types.FunctionType) -> ctypes.c_void_p:
    return ctypes.c_void_p.from_address(id(function) + VECTORCALL_OFFSET.value)


class Hanging:
    """What hangs in PyTorch now."""

    def __init__(self) -> None:
        self.call = called_for(torch.nn.Module.__call__).value
        found = [getattr(module, name) for module, name in PLACES]
        self.values = [one.copy() if isinstance(one, dict) else one for one in found]  # they are added to

    def put(self) -> None:
        called_for(torch.nn.Module.__call__).value = self.call
        for (module, name), value in zip(PLACES, self.values, strict=True):
            setattr(module, name, value)

    def is_nothing(self) -> bool:
        return self.call == called_for(untouched).value and not any(self.values[1:])


def untouched() -> None:
    """A function that nobody has changed."""


def toggle(configure: Callable[[str], None], spec: str, step: Callable[[], None]) -> Callable[[str], None]:
    """Has the setting changed to `spec`; returns what switches it off ("b") and on ("a") from then on."""
    configure("off")
    off = Hanging()
    assert off.is_nothing()
    configure(spec)
    for _ in range(20):
        step()
    on = Hanging()
    assert spec == "off" or on.call != off.call
    return lambda state: (on if state == "a" else off).put()
