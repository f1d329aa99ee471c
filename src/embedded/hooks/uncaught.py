# python.exceptions: what nothing has caught; and the last of it, kept for a debugger. Runs in the target.
# Python 3.6 syntax, built-in modules only.
import posix
import sys

from ..core.describe import Capture, describe
from ..core.wraps import live, put_back, replace
from ..native import table, tid

MOST_TEXT = 65536


def of_program(record):
    """What sys.excepthook is called with, as record(kind, error)."""
    return lambda kind, error, *rest: record(kind, error)


def of_thread(record):
    """The same of threading.excepthook (3.8+)."""

    def hook(args, *rest):
        if args.exc_value is not None and args.exc_type is not SystemExit:
            record(args.exc_type, args.exc_value)

    return hook


def start_exceptions():
    """What a program dies of is found where Python itself puts it before it calls sys.excepthook, which stays
    the job's: code that asks whether it is Python's own (code.InteractiveInterpreter) goes on as before."""
    append, thread_id, text_of, capture = table("python.exceptions"), tid, describe, Capture

    def record(kind, error, thread=None):
        text = capture(MOST_TEXT)
        text_of(error, text.write, set())
        name = kind.__qualname__
        if kind.__module__ not in ("builtins", "__main__"):
            name = "%s.%s" % (kind.__module__, name)
        try:
            message = str(error)[:MOST_TEXT]
        except Exception:
            message = None
        append(None, thread or thread_id(), name, message, text.text(), False)

    live["uncaught"] = record
    live["seen"] = id(last_error())
    live["thread_exception"] = of_thread(record)


def last_error():
    """What Python has printed as uncaught; None when there is nothing."""
    known = vars(sys)
    return known.get("last_exc", known.get("last_value"))


def look_at_last_error():
    """A new one is never where the last one was: that is given back only when the new one is in its place."""
    error, record = last_error(), live.get("uncaught")
    if record is None or id(error) == live["seen"]:
        return
    live["seen"] = id(error)
    if isinstance(error, BaseException) and not any(error is each for each in live.get("kept_errors", ())):
        record(type(error), error, posix.getpid())  # the main thread's, by far most often


def stop_exceptions():
    live.pop("uncaught", None)
    live.pop("thread_exception", None)
    put_back("exceptions")


# ── post_mortem ──────────────────────────────────────────────────────────────────────────────


def start_post_mortem():
    """The last unhandled exception is kept where Python's own debugger looks for it, with all that its
    frames hold. So nobody gets this who did not ask."""
    system, kept = sys, live.setdefault("kept_errors", [])

    def keep(kind, error):
        kept[:] = [error]
        system.last_type, system.last_value, system.last_traceback = type(error), error, error.__traceback__
        system.last_exc = error

    live["kept"] = of_program(keep)
    live["kept_of_thread"] = of_thread(keep)
    replace("post_mortem", sys, "excepthook", before="kept")


def stop_post_mortem():
    live.pop("kept", None)
    kept = live.pop("kept_errors", [])
    if kept and vars(sys).get("last_value") is kept[0]:
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):
            vars(sys).pop(name, None)
    live.pop("kept_of_thread", None)
    put_back("post_mortem")
