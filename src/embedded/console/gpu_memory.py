# `probing memory --gpu`: what torch's GPU allocator has, and who allocated it. Runs in the target, on a
# thread of the probe. Python 3.6 syntax, built-in modules only.
#
# Torch notes stacks only while its memory history is on: it is switched on, unless the job has done so
# itself, and off again after some seconds. The snapshot goes to a file without a name, which probingd
# reads.
import sys
import time

from ..core.alone import undos
from ..core.cuda_history import allocator_functions, history_off, history_on, make_pickler
from ..core.describe import Refused
from ..core.still import loaded_torch
from .profile import keep_file, make_yielding, nameless_file, release_file

HISTORY_POLL = 0.02  # an interrupt arrives between two of them


class MemoryHistory(object):
    """Torch's memory history while it is on for us."""

    def __init__(self, memory, is_on):
        self.memory, self.is_on = memory, is_on
        self.is_ours = False
        self.stand_in = self.original = None

    def start(self):
        """False when the job itself has it on already."""
        if self.is_on():
            return False
        history_on(self.memory)
        self.is_ours = True
        self.original = vars(self.memory)["_record_memory_history"]
        self.stand_in = make_yielding(self.original, self.is_the_jobs)
        self.stand_in.__signature__ = getattr(self.original, "__signature__", None)
        self.memory._record_memory_history = self.stand_in
        return True

    def is_the_jobs(self):
        """The job switches it on or off meanwhile: it stays as the job wants it."""
        self.is_ours = False
        self.put_back()

    def put_back(self):
        if self.stand_in is not None and vars(self.memory).get("_record_memory_history") is self.stand_in:
            self.memory._record_memory_history = self.original
        self.stand_in = None

    def stop(self):
        self.put_back()
        if self.is_ours:
            self.is_ours = False
            history_off(self.memory)


def talk_gpu_memory(source, options):
    """One snapshot; the answer is JSON. probingd asks once more, with release=1, when it has the file."""
    if options.get("release") == "1":
        return release_file("snapshot")
    torch = loaded_torch()
    if torch is None:
        raise Refused("memory --gpu needs PyTorch, and this process has not imported torch")
    cuda = sys.modules.get("torch.cuda")
    if cuda is None or not cuda.is_initialized():
        raise Refused("this process has not used a GPU by torch.cuda")
    memory, is_on = allocator_functions(torch)
    release_file("snapshot")
    history = MemoryHistory(memory, is_on)
    seconds = float(options.get("seconds") or 0)
    undos.append(history.stop)
    begun = time.time()
    own = not history.start() if seconds > 0 else bool(is_on())
    while time.time() < begun + seconds and not own:
        time.sleep(HISTORY_POLL)
    taken = time.time_ns()
    snapshot = memory._snapshot()
    held_ms = (time.time_ns() - taken) / 1e6
    history.stop()
    pickle_into = make_pickler()
    fd = nameless_file("snapshot.pickle", lambda path: pickle_into(snapshot, path))
    return '{"snapshot": %d, "fd": %d, "taken_ns": %d, "recorded_s": %.3f, "held_ms": %.3f, "own": %s}' % (
        keep_file("snapshot", fd),
        fd,
        taken,
        0 if own else taken / 1e9 - begun,
        held_ms,
        "true" if own else "false",
    )
