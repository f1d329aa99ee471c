"""The tables of this process, as functions that append a row.

A table is asked for by name; where there is no probe its rows go nowhere, and it is looked for again
when rows are written later. That costs nothing while a probe is there.
"""

import time

from . import _library

SECONDS_BETWEEN_LOOKS = 1.0

_functions = None  # of the probe; None without one
_looked_at = None


class Table(object):
    """``table.append(None, 1, 2) or table.again(None, 1, 2)`` adds a row, stamped with the time.

    append is the probe's own function, and so fast: it is False when the row was not stored. again()
    then finds out whether another probe is there by now, or the same one that was ejected and injected
    again: its functions live on, but this one is of a table that is gone."""

    __slots__ = ("append", "columns", "connected_at", "name")

    def __init__(self, name, columns=None):
        self.name = name
        self.columns = columns
        self.append = _nowhere
        self.connected_at = None

    def connect(self, functions):
        """Raises ValueError when the table cannot be: another one has its name."""
        arguments = (self.name,) if self.columns is None else (self.name, self.columns)
        self.append = functions["table"](*arguments)
        self.connected_at = time.monotonic()

    def again(self, *values):
        functions = find_or_load()
        if functions is None:
            return False
        if self.connected_at is not None and time.monotonic() - self.connected_at < SECONDS_BETWEEN_LOOKS:
            return False  # it is the memory that is missing
        self.connect(functions)
        return self.append(*values)


def _nowhere(*values):
    return False


def find(now=False):
    """The probe's functions, or None. Looks at most once a second, or `now`."""
    global _functions, _looked_at
    if _functions is not None and _functions["active"]():
        return _functions
    time_now = time.monotonic()
    if not now and _looked_at is not None and time_now - _looked_at < SECONDS_BETWEEN_LOOKS:
        return None
    _looked_at = time_now
    try:
        _functions = _library.native()
    except (OSError, ValueError, ImportError):
        _functions = None
    return _functions


def find_or_load():
    """The same; in a notebook, where importing the package loads nothing, this does."""
    functions = find()
    if functions is None and _library.in_notebook():
        try:
            if _library.load():
                functions = find(now=True)
        except OSError:
            pass
    return functions


def tid():
    functions = _functions or find_or_load()
    return functions["tid"]() if functions is not None else None
