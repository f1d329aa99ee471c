# probing.torch.nvtx. "spans": the job's own ranges, of torch.cuda.nvtx, the package nvtx and
# record_function, are rows of python.spans. "modules": modules are NVTX ranges, by their names in the
# model, for a profiler that the job runs under (nsys). Runs in the target. Python 3.6 syntax, built-in
# modules only; nothing is imported.
import _thread
import sys
import time
from _weakref import ref

from ..core.wraps import live, put_back, replace
from ..native import table, tid, torch_says

NVTX = "nvtx"  # what put_back() is told
MOST_RANGES = 64  # open in one thread; what is deeper is not noted
MOST_NAMES = 100000
nvtx_wanted = set()
nvtx_modules = []  # what ends the ranges of modules


# ── the job's ranges as spans ────────────────────────────────────────────────────────────────


def make_spans():
    """Functions that use no global of ours: a thread may be in one of them when we leave. Each thread has a
    list of [name, when it began (ns), perf_counter]."""
    append, thread_id, ident = table("python.spans"), tid, _thread.get_ident
    now, clock, most = time.time_ns, time.perf_counter, MOST_RANGES
    opened, handles = {}, {}

    def write(begun, kind="span"):
        name, at, since = begun
        took = None if kind == "event" else (clock() - since) * 1e3
        append(at, thread_id(), None, None, str(name), kind, None, took, None)

    def push(note, message=None, *args, **kwargs):
        ranges = opened.setdefault(ident(), [])
        ranges.append([message, now(), clock()] if len(ranges) < most else None)

    def pop(*args, **kwargs):
        ranges = opened.get(ident())
        begun = ranges.pop() if ranges else None
        if ranges is not None and not ranges:
            opened.pop(ident(), None)
        if begun is not None:
            write(begun)

    def mark(note, message=None, *args, **kwargs):
        write([message, now(), clock()], "event")

    def enter(scope, *args, **kwargs):
        if len(handles) < 64 * most:
            handles[id(scope)] = [getattr(scope, "name", None), now(), clock()]

    def leave(scope, *args, **kwargs):
        begun = handles.pop(id(scope), None)
        if begun is not None:
            write(begun)

    return {"nvtx push": push, "nvtx pop": pop, "nvtx mark": mark, "nvtx enter": enter, "nvtx leave": leave}


# (module, class or None, function, what comes before it, what comes after)
NVTX_PLACES = (
    ("torch.cuda.nvtx", None, "range_push", None, "nvtx push"),
    ("torch.cuda.nvtx", None, "range_pop", "nvtx pop", None),
    ("torch.cuda.nvtx", None, "mark", None, "nvtx mark"),
    ("nvtx", None, "push_range", None, "nvtx push"),
    ("nvtx", None, "pop_range", "nvtx pop", None),
    ("torch.autograd.profiler", "record_function", "__enter__", "nvtx enter", None),
    ("torch.autograd.profiler", "record_function", "__exit__", "nvtx leave", None),
)


def find_ranges():
    if "nvtx push" not in live:
        live.update(make_spans())
    for module, owner, name, before, after in NVTX_PLACES:
        found = sys.modules.get(module)
        if found is None or getattr(getattr(found, "__spec__", None), "_initializing", False):
            continue
        place = found if owner is None else vars(found).get(owner)
        if place is not None:
            replace(NVTX, place, name, before, after)


def stop_ranges():
    for key in ("nvtx push", "nvtx pop", "nvtx mark", "nvtx enter", "nvtx leave"):
        live.pop(key, None)
    put_back(NVTX)


# ── modules as ranges ────────────────────────────────────────────────────────────────────────


def make_module_ranges(nvtx, most):
    """(what a call of a module begins with, what it ends with, what ends it all). A range that was begun is
    ended, also when the setting has changed meanwhile; one that was not is not."""
    push, pop, ident, weak = nvtx.rangePushA, nvtx.rangePop, _thread.get_ident, ref
    opened, names, state = {}, {}, {"on": True, "end": None}

    def name_of(module, is_outermost):
        known = names.get(id(module))
        if known is not None and known[0]() is module:
            return known[1]
        if len(names) > most:
            names.clear()
        names[id(module)] = weak(module), type(module).__name__
        for path, one in module.named_modules() if is_outermost else ():
            if path:
                names[id(one)] = weak(one), path
        return names[id(module)][1]

    def begins(module, *_):
        if not state["on"]:
            return
        calls = opened.setdefault(ident(), [])
        try:
            push(name_of(module, not calls))
            calls.append(id(module))
        finally:
            if not calls:
                opened.pop(ident(), None)

    def ends(module, *_):
        calls = opened.get(ident())
        if calls and calls[-1] == id(module):
            calls.pop()
            pop()
            if not calls:
                opened.pop(ident(), None)
        if not state["on"] and not opened:
            state["end"]()

    def stop(end):
        state.update(on=False, end=end)
        if not opened:
            end()

    return begins, ends, stop


def find_module_ranges():
    modules = sys.modules.get("torch.nn.modules.module")
    nvtx = getattr(sys.modules.get("torch.cuda.nvtx"), "_nvtx", None)
    if nvtx_modules or modules is None or nvtx is None:
        return
    if getattr(getattr(sys.modules.get("torch"), "__spec__", None), "_initializing", False):
        return
    if type(nvtx).__name__ == "_NVTXStub":
        nvtx_modules.append(lambda: None)
        return torch_says("probing.torch.nvtx=modules needs a torch with CUDA: this one has no NVTX")
    begins, ends, stop = make_module_ranges(nvtx, MOST_NAMES)
    first = modules.register_module_forward_pre_hook(begins)
    try:
        last = modules.register_module_forward_hook(ends, always_call=True)
    except TypeError:
        first.remove()
        nvtx_modules.append(lambda: None)
        return torch_says("probing.torch.nvtx=modules needs torch 2.1 or later")

    def end():
        first.remove()
        last.remove()

    nvtx_modules.append(lambda: stop(end))


def stop_module_ranges():
    while nvtx_modules:
        try:
            nvtx_modules.pop()()
        except Exception:
            pass


def find_nvtx():
    """After something was imported, or the setting has changed."""
    if "spans" in nvtx_wanted:
        find_ranges()
    if "modules" in nvtx_wanted:
        find_module_ranges()


def configure_nvtx(text):
    wanted = set(text.split(",")) & {"spans", "modules"}
    if wanted == nvtx_wanted:
        return
    if "spans" not in wanted:
        stop_ranges()
    if "modules" not in wanted:
        stop_module_ranges()
    nvtx_wanted.clear()
    nvtx_wanted.update(wanted)
