# The first code of ours that runs in an interpreter. From here on an end of the interpreter waits for our
# threads. Runs in the target with the GIL. Python 3.6 syntax, built-in modules only.
import sys

from ..native import at_exit, kept

# No import statement: it takes a lock that the main thread may have had, and may end without giving it back
# in time. importlib loads its own first modules like this, without locks.
atexit = sys.modules.get("atexit")
if atexit is None:
    try:
        atexit = sys.modules["_frozen_importlib"]._builtin_from_name("atexit")
    except Exception:  # a Python that has it as a file
        import atexit


def end_of(cell):
    """A function for atexit that needs nothing of ours and calls what is in the cell."""

    def probing_at_exit():
        if cell[0] is not None:
            cell[0]()

    made = type(end_of)(probing_at_exit.__code__, {}, "probing_at_exit", None, probing_at_exit.__closure__)
    atexit.register(made)
    return made


exit_cell = kept.get("exit") if kept is not None else None
exit_function = None
if exit_cell is None:
    exit_cell = [None]
    exit_function = end_of(exit_cell)
    if kept is not None:
        kept["exit"] = exit_cell
exit_cell[0] = at_exit


def leave():
    exit_cell[0] = None
    if kept is None and exit_function is not None:
        atexit.unregister(exit_function)
