"""Probing: attach to a running Python or PyTorch job and see why it hangs, slows down or leaks.

``import probing`` starts the probe in this process (a thread, a unix socket; nothing is printed
and nothing is changed in your program). ``PROBING_DISABLE=1`` keeps it out; then, and wherever the
library is missing, what is logged goes nowhere.

    probing.log(epoch=1, step=20, loss=0.3)        # a row of training_logs
    with probing.span("load"): ...                 # a row of python.spans
    @probing.table                                 # your own table
    probing.query("SELECT * FROM training_logs")
"""

import os

from . import _library, _native
from ._config import config
from ._errors import QueryError
from ._record import event, log, span, step
from ._table import table
from ._torch import disable_torch_profiling, enable_torch_profiling

__version__ = "0.1.0"
__all__ = [
    "QueryError",
    "__version__",
    "config",
    "connect",
    "disable_torch_profiling",
    "enable_torch_profiling",
    "event",
    "is_active",
    "load",
    "log",
    "query",
    "span",
    "step",
    "table",
]


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


def connect(target=None, timeout=30):
    """For questions about another process: ``probing.connect(1234).query("SELECT …")``.

    ``target`` is a process id; None means all processes of this host. Nothing is loaded into this process or
    that one. A process that is not there, and has left nothing, is a QueryError.
    """
    from ._client import Connection

    return Connection(target, timeout)


def query(sql, format="auto"):
    """Runs one SQL statement about this process; see connect() for others.

    The answer is a pandas or polars DataFrame or a pyarrow Table when the program has imported one
    of these, else a list of tuples with ``columns``; ``format`` asks for one of them. A query that fails
    raises QueryError.
    """
    _native.find_or_load()
    return connect(os.getpid()).query(sql, format)


def load_ipython_extension(shell):
    """`%load_ext probing` in IPython and Jupyter: %probing and %%probing ask in SQL."""
    from ._notebook import register

    register(shell)


# A notebook's kernel mostly asks about other processes: there the probe comes with the first thing that is
# recorded, or by load().
if os.environ.get("PROBING_DISABLE") != "1" and not _library.in_notebook():
    try:
        if load() and _library.loaded_here():
            _native.find(now=True)  # which puts the hooks in place, too
    except OSError:
        pass  # observing is never worth a failed job; is_active() tells
