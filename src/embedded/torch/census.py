# census=on: which tensors are alive when a step ends that was traced in full, and which module had returned
# them. Runs in the target, on the thread that trains: only at the same place of each step are counts
# comparable. Python 3.6 syntax, built-in modules only.
#
# A look goes through all objects the collector knows, with the GIL: some ten milliseconds in a process that
# has just imported torch, on whichever thread. So what the last one took decides when the next one may be:
# all of them together stay below a third of probing.torch.max_overhead.
import time

from ..core.heap import alive_now
from ..core.kinds import count_kinds, parts_of_kind, tensors_in
from ..native import table, torch_says
from .nonfinite import path_of_module

MOST_KEPT = 16  # of the last looks
MOST_LOOK = 0.2  # seconds: a look that takes longer ends there, and there is no other
MOST_CENSUS_ROWS = 100  # kinds of one look that have a row of their own
MOST_KINDS = 5000  # that are kept of one look, those with most bytes
MOST_BIRTHPLACES = 20000
CENSUS_SHARE = 1 / 3.0  # of the bound

censuses = []  # the one that runs
looked_at = []  # tensors, during a look; holders.py must not take it for one of the job's lists
# live_leaks.py reads these two; no reference to a tensor is in them.
census_kept = []  # (time, step, {kind: (count, bytes)}), oldest first
birthplaces = {}  # address of a tensor's numbers → (shape, dtype, path of the module that returned it)


class Census(object):
    def __init__(self, torch, every, max_overhead):
        self.torch, self.append = torch, table("python.tensor_census")
        self.every, self.share = every, max(max_overhead * CENSUS_SHARE, 1e-5)
        self.traced = 0  # steps, in full
        self.next_at = 0.0
        self.counting = False  # a look follows at the end of this step
        self.last = None  # (id, address) of what was returned last

    def step_begins(self):
        """One that is traced in full."""
        self.traced += 1
        self.counting = (
            self.every > 0 and self.traced % self.every == 0 and time.perf_counter() >= self.next_at
        )

    def on_output(self, module, result):
        if not self.counting or len(birthplaces) >= MOST_BIRTHPLACES:
            return
        path = path_of_module(id(module)) or type(module).__name__
        for tensor in tensors_in(self.torch, result):
            key = id(tensor), tensor.data_ptr()
            # An outer module that returns what an inner one has made did not make it.
            if key != self.last and key[1] != 0:
                birthplaces[key[1]] = tensor.shape, tensor.dtype, path
            self.last = key

    def on_step(self, step):
        """A step has ended. Returns the nanoseconds that are within our own bound."""
        if not self.counting:
            return 0
        self.counting, self.last = False, None
        began, cpu_began = time.perf_counter(), time.thread_time()
        try:
            self.look(step)
        finally:
            # Of the time that passes, others may have had most: on a busy machine we would never look again.
            now, took = time.perf_counter(), time.thread_time() - cpu_began
            self.next_at = now + took / self.share
            if took > MOST_LOOK and self.every:
                self.give_up(took)
        return int((now - began) * 1e9)

    def give_up(self, took):
        self.every = 0
        torch_says("census: looking at all objects took %.1f s, it is not done again" % took)

    def look(self, step):
        try:
            complete, found = alive_now(self.torch.Tensor, MOST_LOOK)
            looked_at.extend(found)
            del found
            if not complete:
                return self.give_up(MOST_LOOK)
            kinds = count_kinds(looked_at)
            addresses = {address_of(one) for one in looked_at}
        finally:
            del looked_at[:]
        # What is not alive any more has an address that others may get.
        for address in [one for one in birthplaces if one not in addresses]:
            del birthplaces[address]
        now = time.time()
        largest = sorted(kinds.items(), key=lambda item: (-item[1][1], item[0]))[:MOST_KINDS]
        census_kept.append((now, step, dict(largest)))
        del census_kept[:-MOST_KEPT]
        self.write(int(now * 1e9), step, largest, kinds.values())

    def write(self, now_ns, step, largest, sums):
        own = largest[:MOST_CENSUS_ROWS]
        for kind, (count, size) in own:
            self.append(now_ns, step, *parts_of_kind(kind) + (count, size))
        if len(sums) > len(own):
            count, size = [sum(one[i] for one in sums) - sum(one[i] for _, one in own) for i in (0, 1)]
            self.append(now_ns, step, None, None, None, None, count, size)


def address_of(tensor):
    try:
        return tensor.data_ptr()
    except Exception:
        return 0  # one without a memory of its own


def tensors_counted():
    """(how many, bytes) of the last look, for python.memory."""
    if not census_kept:
        return None, None
    sums = list(census_kept[-1][2].values())
    return sum(one[0] for one in sums), sum(one[1] for one in sums)


def start_census(torch, text, max_overhead):
    """(on_output, on_step), or two times None."""
    if text == "off":
        return None, None
    census = Census(torch, 1 if text == "on" else int(text), max_overhead)
    censuses.append(census)
    return census.on_output, census.on_step


def stop_census():
    del censuses[:]
    del census_kept[:]
    birthplaces.clear()
