# The memory history of torch's GPU allocator, and snapshots of it in files. Runs in the target. Python 3.6
# syntax, built-in modules only; torch is looked at, never imported.
import posix
import sys

from .describe import Refused

HISTORY_EVENTS = 20000  # torch keeps so many allocations and frees; each takes some KB
CAN_CLEAR = "clear_history"


def allocator_functions(torch):
    """(torch.cuda.memory, a function that says whether its history is on)."""
    memory = sys.modules.get("torch.cuda.memory")
    is_on = getattr(torch._C, "_cuda_isHistoryEnabled", None)
    known = {} if memory is None else vars(memory)
    if is_on is None or "_snapshot" not in known or "_record_memory_history" not in known:
        raise Refused(
            "this needs torch 2.1 or later with CUDA or ROCm, whose allocator says who allocated what; this "
            "one is %s" % getattr(torch, "__version__", "older")
        )
    return memory, is_on


def history_on(memory):
    memory._record_memory_history("all", context="alloc", stacks="python", max_entries=HISTORY_EVENTS)


def history_off(memory):
    """What was recorded goes as well, where torch can be told so."""
    signature = getattr(memory._record_memory_history, "__signature__", None)
    options = {CAN_CLEAR: True} if CAN_CLEAR in getattr(signature, "parameters", ()) else {}
    memory._record_memory_history(None, **options)


def make_pickler():
    """pickle_into(snapshot, path): as torch.cuda.memory._dump_snapshot() writes it. Other threads may run
    whenever a piece is written. It uses no global of ours."""
    pickle, system, plain = sys.modules["pickle"], posix, type(sys.implementation)  # torch has imported it

    def pickle_into(snapshot, path):
        flags = system.O_WRONLY | system.O_CREAT | system.O_EXCL | system.O_CLOEXEC
        fd = system.open(path, flags, 0o600)

        def write(data):
            left = memoryview(data)
            while left:
                left = left[system.write(fd, left) :]

        try:
            pickle.Pickler(plain(write=write), 4).dump(snapshot)
        finally:
            system.close(fd)

    return pickle_into
