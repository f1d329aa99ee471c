# torch.distributed: what the job's ranks say to each other, as rows of python.collectives. Only what
# goes through Python's functions is seen here, with its duration and step; all else comes from torch's
# Flight Recorder (flight_recorder.cc). No rank ever says more than it did without us.
# Python 3.6 syntax, built-in modules only.
import sys
import time

from ..core.wraps import live, put_back, undo
from ..native import own_collective, table, torch_step

COLLECTIVES = "collectives"  # what put_back() is told
OPERATIONS = (
    "all_reduce broadcast reduce all_gather all_gather_into_tensor gather scatter reduce_scatter "
    "reduce_scatter_tensor all_to_all all_to_all_single barrier send recv isend irecv "
    "broadcast_object_list all_gather_object"
).split()

PEER_TO_PEER = ("send", "recv", "isend", "irecv")  # whose numbers only the Flight Recorder knows


def size_of(values, depth=2):
    """(bytes, element type) of the tensors among these."""
    total, dtype = 0, None
    for value in values:
        if isinstance(value, (list, tuple)) and depth:
            more, kind = size_of(value, depth - 1)
        elif hasattr(value, "element_size") and hasattr(value, "numel"):
            more, kind = value.element_size() * value.numel(), str(value.dtype).replace("torch.", "")
        else:
            continue
        total, dtype = total + more, dtype or kind
    return total, dtype


class Collectives(object):
    def __init__(self, distributed):
        self.distributed = distributed
        self.append = table("python.collectives")
        self.begin = table("python.collective_starts")
        self.counted = {}  # of groups that do not count themselves

    def group_of(self, group):
        if group is None:
            group = self.distributed.GroupMember.WORLD or self.distributed._get_default_group()
        return group

    def number_of(self, group, name):
        """That of the group's last operation."""
        try:
            return group._get_sequence_number_for_group()
        except Exception:
            return self.counted.get(name, 0)

    def before(self, op, args, kwargs):
        """Written down before it begins: of one that never ends nothing else is left."""
        began = time.time(), time.perf_counter()
        group = self.group_of(kwargs.get("group"))
        name = getattr(group, "group_name", None) or "default"
        size, dtype = size_of(args) if args else size_of(kwargs.values())
        seq = self.number_of(group, name) + 1
        self.begin(int(began[0] * 1e9), seq, name, op, size, torch_step())
        if op not in PEER_TO_PEER:
            own_collective(name, seq)
        return began, group, name, size, dtype

    def after(self, op, note, result, failed=False):
        now = time.perf_counter()
        began, group, name, size, dtype = note
        pending = result is not None and hasattr(result, "is_completed")
        self.counted[name] = self.counted.get(name, 0) + 1
        self.append(
            int(began[0] * 1e9),
            self.number_of(group, name),
            name,
            op,
            size,
            dtype,
            "failed" if failed else "scheduled" if pending else "completed",
            None,
            None if pending or failed else (now - began[1]) * 1e3,
            torch_step(),
        )


def wrap_collective(op, original, compiling):
    shared = live

    def wrapper(*args, **kwargs):
        if compiling():  # torch.compile reads this code, and goes on as if we were not there
            return original(*args, **kwargs)
        recorder = shared.get("collectives")
        note = None
        try:
            note = None if recorder is None else recorder.before(op, args, kwargs)
        except Exception:
            pass
        result = None
        failed = True
        try:
            result = original(*args, **kwargs)
            failed = False
        finally:
            if note is not None:
                try:
                    recorder.after(op, note, result, failed)
                except Exception:
                    pass
        return result

    for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(wrapper, attribute, getattr(original, attribute, None))
    wrapper.__wrapped__ = original
    return wrapper


def find_collectives():
    distributed = sys.modules.get("torch.distributed.distributed_c10d")
    package = sys.modules.get("torch.distributed")
    if distributed is None or package is None or "collectives" in live:
        return
    if getattr(getattr(package, "__spec__", None), "_initializing", False):
        return
    live["collectives"] = Collectives(distributed)
    compiler = getattr(sys.modules["torch"], "compiler", None)
    compiling = getattr(compiler, "is_compiling", bool)  # bool() is False
    native = sys.modules.get("torch._C._distributed_c10d")
    recorded = any(hasattr(native, name) for name in ("_dump_fr_trace", "_dump_nccl_trace"))
    for op in OPERATIONS:
        original = vars(distributed).get(op)
        if original is None or (recorded and op in PEER_TO_PEER):
            continue
        wrapper = wrap_collective(op, original, compiling)
        for owner in (distributed, package):
            if vars(owner).get(op) is original:
                setattr(owner, op, wrapper)
                undo.setdefault(COLLECTIVES, []).append((owner, op, wrapper, original))


def stop_collectives():
    live.pop("collectives", None)
    put_back(COLLECTIVES)
