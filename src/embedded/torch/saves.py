# Checkpoints: how long torch.save() and its kind hold up the job, as rows of python.spans.
# Python 3.6 syntax, built-in modules only.
import sys
import time

from ..core.wraps import live, put_back, replace
from ..native import table, tid, torch_step

SAVES = "saves"  # what put_back() is told
SAVING = ("torch", "torch.distributed.checkpoint")  # modules whose save() is meant


def save_begins(*args, **kwargs):
    return time.time(), time.perf_counter()


def make_save_ended(name):
    append, thread_id, step = table("python.spans"), tid, torch_step

    def save_ended(began, *args, **kwargs):
        took_ms = (time.perf_counter() - began[1]) * 1e3
        where = [value for value in list(args[1:]) + list(kwargs.values()) if isinstance(value, str)]
        text = where[0].replace("\\", "\\\\").replace('"', '\\"') if where else ""
        attributes = '{"file": "%s"}' % text if text and text.isprintable() else None
        append(int(began[0] * 1e9), thread_id(), None, None, name, "span", step(), took_ms, attributes)

    return save_ended


def find_saves():
    for name in SAVING:
        module = sys.modules.get(name)
        if module is None or getattr(getattr(module, "__spec__", None), "_initializing", False):
            continue
        key = name + ".save"
        if replace(SAVES, module, "save", "save begins", key) and key not in live:
            live["save begins"] = save_begins
            live[key] = make_save_ended(key)


def stop_saves():
    for key in ["save begins"] + [name + ".save" for name in SAVING]:
        live.pop(key, None)
    put_back(SAVES)
