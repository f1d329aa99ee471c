"""Probing: looks into running AI jobs which nobody prepared for it.

``import probing`` starts the probe in this process (a thread, a unix socket; nothing is printed
and nothing is changed in your program). ``PROBING_DISABLE=1`` keeps it out.
"""

import os

from . import _library

__version__ = "0.1.0"
__all__ = ["__version__", "is_active", "load"]


def load(path=None):
    """Loads the probe into this process; the second time nothing happens.

    ``path`` is the library to load; otherwise that of the variable PROBING_LIBRARY, otherwise the
    one in this package. Returns True when the probe is loaded afterwards, raises OSError when the
    library cannot be loaded, and leaves the process alone when PROBING_DISABLE=1.
    """
    return _library.load(path)


def is_active():
    """True when a probe is loaded in this process, whichever way it came."""
    return _library.is_active()


if os.environ.get("PROBING_DISABLE") != "1":
    try:
        load()
    except OSError:
        pass  # observing is never worth a failed job; is_active() tells
