# What the probe hangs into an interpreter, and takes out again. Runs in the target with the GIL, on
# a thread of the probe or inside of a garbage collection. Python 3.6 syntax, built-in modules only.
import gc
import sys

from ..core.wraps import replace
from ..native import exit_cell, gc_event
from ..torch.recompiles import note_recompiles
from ..torch.torch import configure_torch, find_torch
from .log_lines import configure_log, find_log
from .loggers import find_loggers, start_loggers, stop_loggers
from .memory import counts_of_memory
from .nvtx import configure_nvtx, find_nvtx
from .oom import configure_oom, find_oom
from .uncaught import (
    look_at_last_error,
    start_exceptions,
    start_post_mortem,
    stop_exceptions,
    stop_post_mortem,
)


def start_gc():
    if gc_event not in gc.callbacks:
        gc.callbacks.append(gc_event)


def stop_gc():
    while gc_event in gc.callbacks:
        gc.callbacks.remove(gc_event)


PARTS = {
    "gc": (start_gc, stop_gc),
    "exceptions": (start_exceptions, stop_exceptions),
    "loggers": (start_loggers, stop_loggers),
    "post_mortem": (start_post_mortem, stop_post_mortem),
    "memory": (lambda: None, lambda: None),  # the probe asks for memory_counts()
}
running = set()


def memory_counts():
    look_at_last_error()
    if "memory" not in running:
        return None
    try:
        note_recompiles()
    except Exception:
        pass  # another torch than we know
    return counts_of_memory()


keep_away = exit_cell[0]  # what exit_guard.py has put there


def at_end():
    try:
        look_at_last_error()
    finally:
        keep_away()


exit_cell[0] = at_end


def modules_changed():
    """After something was imported. Returns True when to be called again soon."""
    look_at_last_error()
    again = False
    for word, record in (("exceptions", "thread_exception"), ("post_mortem", "kept_of_thread")):
        if word in running and "threading" in sys.modules:
            replace(word, sys.modules["threading"], "excepthook", before=record)  # 3.8+
    if "loggers" in running:
        again = find_loggers()
    again = find_oom() or again
    find_nvtx()
    find_log()
    return find_torch() or again


def remove():
    configure("none")
    exit_cell[0] = keep_away


def configure(text):
    """Makes exactly these parts run: "gc,loggers", or "gc,loggers;SPEC;3%;NVTX;LOG;FOLDER" for torch and the
    job's log as well."""
    parts = (text if ";" in text else text + ";off;0%;none;;").split(";", 5)
    words, spec, max_overhead, nvtx, log, folder = parts
    wanted = set(words.split(",")) & set(PARTS)
    for word in sorted(running - wanted):
        running.discard(word)
        PARTS[word][1]()
    for word in sorted(wanted - running):
        PARTS[word][0]()
        running.add(word)
    configure_log(bytes.fromhex(log).decode("utf-8", "replace"))
    configure_oom(folder)
    configure_nvtx(nvtx)
    configure_torch(spec, max_overhead)
    return modules_changed()
