# probing.torch.oom_snapshots: when a GPU has no memory left, a snapshot of torch's allocator goes to a file,
# before the job gets its error. Torch's memory history is on as long as the setting is. Runs in the target.
# Python 3.6 syntax, built-in modules only.
#
# Torch gives no way to take an observer of such errors out again. So there is one for the life of the
# process, which calls what is in its cell; the cell is empty when the setting is not on, and the next probe
# finds it.
import posix
import sys
import time

from ..core.cuda_history import allocator_functions, history_off, history_on, make_pickler
from ..native import kept, table, tid

MOST_OOM_SNAPSHOTS = 5  # of one process
OOM_PAUSE = 60.0  # seconds between two: a job may try one batch size after the other
OOM_CELL = "oom"
oom_setting = [""]  # the folder
oom_running = []  # what stops it


def make_observer(cell):
    def out_of_memory(device, wanted, *_):
        take = cell.get("take")
        if take is not None:
            try:
                take(device, wanted)
            except Exception:
                pass  # the job's own error comes next

    return out_of_memory


def make_taker(folder, memory):
    """Uses no global of ours: the thread that meets the error may be in it when we leave."""
    append, thread_id, pickle_into = table("python.spans"), tid, make_pickler()
    system, clock, pid, state = posix, time.time, posix.getpid(), {"last": 0.0, "taken": 0}
    most, pause = MOST_OOM_SNAPSHOTS, OOM_PAUSE

    def take(device, wanted):
        now = clock()
        if system.getpid() != pid or state["taken"] >= most or now - state["last"] < pause:
            return
        state["last"] = now  # also keeps a second thread out
        path = "%s/probing-oom-%d-%d.pickle" % (folder, pid, int(now))
        pickle_into(memory._snapshot(), path)
        state["taken"] += 1
        about = '{"device": %d, "bytes": %d, "snapshot": "%s"}' % (
            device,
            wanted,
            path.replace("\\", "\\\\").replace('"', '\\"'),
        )
        append(None, thread_id(), None, None, "torch.OutOfMemoryError", "event", None, None, about)

    return take


def observe_oom(torch, folder):
    """Once CUDA is there. Returns what stops it."""
    memory, is_on = allocator_functions(torch)
    cell = kept.setdefault(OOM_CELL, {})
    if "observer" not in cell:
        observer = make_observer(cell)
        torch._C._cuda_attach_out_of_memory_observer(observer)
        cell["observer"] = observer
    ours = not is_on()
    if ours:
        history_on(memory)
    cell["take"] = make_taker(folder, memory)

    def stop():
        cell["take"] = None
        if ours and is_on():
            history_off(memory)

    return stop


def start_oom(torch, folder):
    """Now, or when the job begins to use CUDA: torch calls what is queued then on its own thread."""
    cuda = sys.modules.get("torch.cuda")
    queued, running = [True], oom_running

    def begin():
        if queued and not running:
            try:
                running.append(observe_oom(torch, folder))
            except Exception:
                running.append(lambda: None)  # a torch that has no such thing

    def forget():
        del queued[:]
        calls = vars(cuda).get("_queued_calls", [])
        calls[:] = [call for call in calls if call[0] is not begin]

    if cuda.is_initialized():
        begin()
    else:
        cuda._lazy_call(begin)
    return forget


oom_waiting = []  # what forgets that we wait for CUDA


def find_oom():
    """After something was imported, or the setting has changed. Returns whether to look again soon."""
    torch = sys.modules.get("torch")
    if not oom_setting[0] or torch is None or oom_waiting or kept is None:
        return False
    if getattr(getattr(torch, "__spec__", None), "_initializing", False):
        return True
    if hasattr(sys.modules.get("torch.cuda"), "_lazy_call"):
        oom_waiting.append(start_oom(torch, oom_setting[0]))
    return False


def configure_oom(folder):
    if folder == oom_setting[0]:
        return
    oom_setting[0] = ""
    for stop in oom_waiting + oom_running:
        try:
            stop()
        except Exception:
            pass
    del oom_waiting[:], oom_running[:]
    oom_setting[0] = folder
