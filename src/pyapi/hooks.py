# ruff: noqa: F821  describe.py comes before this file; native functions are put in by hooks.cc.
# What the probe hangs into an interpreter, and takes out again. Runs in the target with the GIL, on
# a thread of the probe or inside of a garbage collection. Python 3.6 syntax, built-in modules only.
#
# Functions that the job may keep (wrappers) use no global of this namespace: it is emptied when the
# probe leaves. They find what they need in `live`, a dict that is empty from then on, and do
# nothing but call the original.
import gc
import posix
import sys
from itertools import islice

MOST_TEXT = 65536
MOST_WRITERS = 1000
SUMMARY_WRITERS = ("torch.utils.tensorboard", "torch.utils.tensorboard.writer", "tensorboardX")
WANDB_RUNS = ("wandb.sdk.wandb_run", "wandb")

live = {}
undo = {}  # word of the setting → functions to call, last first


class Rows(object):
    """Which values of python.metrics form one row: those with the same step, one after another."""

    def __init__(self):
        self.last = 0
        self.current = {}  # id of a writer → (step, row)

    def row(self, writer, step):
        if len(self.current) > MOST_WRITERS:
            self.current.clear()
        known = self.current.get(writer)
        if known is not None and known[0] == step and step is not None:
            return known[1]
        self.last += 1
        self.current[writer] = (step, self.last)
        return self.last


def wrap(original, name, before=None, after=None):
    """A function that calls the original, and live[before] and live[after] around it. Whatever
    these do, the caller sees what the original does."""
    shared = live

    def wrapper(*args, **kwargs):
        note = None
        record = shared.get(before)
        if record is not None:
            try:
                note = record(*args, **kwargs)
            except Exception:
                pass
        result = original(*args, **kwargs)
        record = shared.get(after)
        if record is not None:
            try:
                record(note, *args, **kwargs)
            except Exception:
                pass
        return result

    for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
        try:
            setattr(wrapper, attribute, getattr(original, attribute))
        except (AttributeError, TypeError):
            pass
    wrapper.__wrapped__ = original  # inspect.signature() looks there
    return wrapper


def replace(word, owner, name, before=None, after=None):
    """Wraps a function of a module or class, once. Returns whether it is wrapped now."""
    namespace = vars(owner)
    original = namespace.get(name)
    if original is None:
        return False
    if any(entry[:2] == (owner, name) and entry[2] is original for entry in undo.setdefault(word, [])):
        return True
    wrapper = wrap(original, name, before, after)
    setattr(owner, name, wrapper)
    undo[word].append((owner, name, wrapper, original))
    return True


def put_back(word):
    for owner, name, wrapper, original in reversed(undo.pop(word, [])):
        if vars(owner).get(name) is wrapper:  # else somebody has wrapped ours; it goes on working
            setattr(owner, name, original)


# ── gc ───────────────────────────────────────────────────────────────────────────────────────


def start_gc():
    if gc_event not in gc.callbacks:
        gc.callbacks.append(gc_event)


def stop_gc():
    while gc_event in gc.callbacks:
        gc.callbacks.remove(gc_event)


# ── exceptions ───────────────────────────────────────────────────────────────────────────────


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


# ── loggers ──────────────────────────────────────────────────────────────────────────────────


def whole(number):
    """A step as an int; None when it is none."""
    try:
        return None if number is None else int(number)
    except Exception:
        return None


def start_loggers():
    append, rows = table("python.metrics"), Rows()
    whole_number = whole

    def value(source, row, epoch, step, name, value):
        if isinstance(value, str):
            append(None, source, row, epoch, step, name, None, value[:MOST_TEXT])
        elif value is not None:
            try:
                append(None, source, row, epoch, step, name, value, None)
            except (TypeError, ValueError, OverflowError, RuntimeError):
                pass  # an image, a table, a tensor with many elements: no metric

    def scalar(note, writer, tag, scalar_value, global_step=None, *args, **kwargs):
        step = whole_number(global_step)
        value("tensorboard", rows.row(id(writer), step), None, step, tag, scalar_value)

    def scalars(note, writer, main_tag, tag_scalar_dict, global_step=None, *args, **kwargs):
        step = whole_number(global_step)
        row = rows.row(id(writer), step)
        for tag, scalar_value in tag_scalar_dict.items():
            value("tensorboard", row, None, step, "%s/%s" % (main_tag, tag), scalar_value)

    def step_before(run, *args, **kwargs):
        return whole_number(getattr(run, "step", None))

    def flat(data, prefix):
        for key, item in data.items():
            if isinstance(item, dict):
                for pair in flat(item, "%s%s." % (prefix, key)):
                    yield pair
            else:
                yield "%s%s" % (prefix, key), item

    def wandb_log(note, run, data, step=None, commit=None, *args, **kwargs):
        at = whole_number(step) if step is not None else note
        row = rows.row(id(run), at)
        values = dict(flat(data, ""))
        epoch = whole_number(values.pop("epoch", None))
        for name, item in values.items():
            if not name.startswith("_"):
                value("wandb", row, epoch, at, name, item)

    live.update(scalar=scalar, scalars=scalars, step_before=step_before, wandb=wandb_log)


def stop_loggers():
    for name in ("scalar", "scalars", "step_before", "wandb"):
        live.pop(name, None)
    put_back("loggers")


def find_loggers():
    """Wraps what has been imported meanwhile. Returns whether an import seems to be under way."""
    unfinished = False
    for name in SUMMARY_WRITERS:
        module = sys.modules.get(name)
        if module is not None:
            writer = vars(module).get("SummaryWriter")
            if isinstance(writer, type):
                replace("loggers", writer, "add_scalar", after="scalar")
                replace("loggers", writer, "add_scalars", after="scalars")
            else:
                unfinished = True
    for name in WANDB_RUNS:
        module = sys.modules.get(name)
        run = vars(module).get("Run") if module is not None else None
        if isinstance(run, type):
            replace("loggers", run, "log", before="step_before", after="wandb")
    wandb = sys.modules.get("wandb")
    current = vars(wandb).get("run") if wandb is not None else None
    if current is not None:  # wandb.init() came before us: wandb.log is a method of the run as it was
        replace("loggers", type(current), "log", before="step_before", after="wandb")
        bound = vars(wandb).get("log")
        if getattr(bound, "__self__", None) is current and hasattr(bound, "__func__"):
            method = current.log
            if bound.__func__ is not method.__func__:
                wandb.log = method
                undo["loggers"].append((wandb, "log", method, bound))
    return unfinished


# ── memory ───────────────────────────────────────────────────────────────────────────────────

MOST_BLOCKS = 200000  # counting the objects of a larger heap would hold the job for milliseconds


def memory_of_gpus():
    """What the framework says, if it is there and uses a GPU already: (allocated, reserved)."""
    cuda = sys.modules.get("torch.cuda")
    if cuda is None or not vars(cuda).get("_initialized"):
        return None, None
    devices = range(cuda.device_count())
    return (
        sum(cuda.memory_allocated(device) for device in devices),
        sum(cuda.memory_reserved(device) for device in devices),
    )


def memory_counts():
    """(blocks, gen0, gen1, gen2, objects, tensors, their bytes, gpu_allocated, gpu_reserved); None for what
    is not known: of tensors what the last census says."""
    look_at_last_error()
    if "memory" not in running:
        return None
    blocks = sys.getallocatedblocks() or None  # 0 when another allocator is in use
    few = blocks is not None and blocks <= MOST_BLOCKS
    # In one call of C code: heap.py says why.
    objects = sum(map(len, islice(iter(gc.get_objects, None), 1))) if few else None
    try:
        allocated, reserved = memory_of_gpus()
    except Exception:
        allocated, reserved = None, None
    return (blocks,) + gc.get_count() + (objects,) + tensors_counted() + (allocated, reserved)


MEGATRON = (
    ("dp", "get_data_parallel_rank"),
    ("tp", "get_tensor_model_parallel_rank"),
    ("pp", "get_pipeline_model_parallel_rank"),
    ("ep", "get_expert_model_parallel_rank"),
    ("cp", "get_context_parallel_rank"),
)


def roles_in_job(rank):
    """{"tp": 1, "dp": 0}: the rank in each kind of parallelism, as Megatron's parallel_state or the groups of
    a DeviceMesh with named dimensions have it."""
    roles = {}
    state = sys.modules.get("megatron.core.parallel_state") or sys.modules.get("megatron.mpu")
    for name, function in MEGATRON if state is not None else ():
        try:
            roles[name] = int(getattr(state, function)())
        except Exception:  # not set up, or an older one
            continue
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    world = getattr(c10d, "_world", None)
    for group, ranks in list(getattr(world, "pg_group_ranks", {}).items()):
        about = str(getattr(group, "group_desc", ""))
        name = about[len("mesh_") :]
        is_named = about.startswith("mesh_") and name != "default" and not name.startswith("dim_")
        if is_named and rank in ranks:
            roles.setdefault(name, int(ranks[rank]))
    return roles


def place_in_job():
    """(rank, world size, roles) as torch.distributed has them, roles being "dp=0,tp=1"; None while the job
    has not set it up. Nothing is imported, and no other rank is asked."""
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            rank = distributed.get_rank()
            roles = ",".join("%s=%d" % role for role in sorted(roles_in_job(rank).items()))
            return rank, distributed.get_world_size(), roles
    except Exception:
        pass
    return None


# ── all of them ──────────────────────────────────────────────────────────────────────────────

PARTS = {
    "gc": (start_gc, stop_gc),
    "exceptions": (start_exceptions, stop_exceptions),
    "loggers": (start_loggers, stop_loggers),
    "post_mortem": (start_post_mortem, stop_post_mortem),
    "memory": (lambda: None, lambda: None),  # the probe asks for memory_counts()
}
running = set()


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
    return find_torch() or again


def remove():
    configure("none")
    exit_cell[0] = keep_away


def configure(text):
    """Makes exactly these parts run: "gc,loggers", or "gc,loggers;SPEC;3%" for torch as well."""
    words, spec, max_overhead = (text + ";off;0%").split(";")[:3]
    wanted = set(words.split(",")) & set(PARTS)
    for word in sorted(running - wanted):
        running.discard(word)
        PARTS[word][1]()
    for word in sorted(wanted - running):
        PARTS[word][0]()
        running.add(word)
    configure_torch(spec, max_overhead)
    return modules_changed()
