# ruff: noqa: F821  live_torch.py, heap.py, kinds.py and made_in.py come before this file.
# python.leaks: what there is more and more of. Runs in the target, on a thread of the probe. Python 3.6
# syntax, built-in modules only.
#
# Each question counts what is alive, and the counts of the last questions are kept; tensors are counted at
# the ends of steps instead, where census.py does that. A kind has grown when each of the later counts is
# higher than all of the earlier ones: what comes and goes within a step, or waits for the collector, is not
# called a leak.
import time
from _collections import _count_elements as count_into  # collections is no built-in module

MOST_COUNTS = 16  # that are kept
LEAST_COUNTS = 4  # of a census, before it is believed
MOST_LEAKS = 20  # that are named
LEAST_TENSORS, LEAST_OBJECTS = 2, 20  # that there must be more of
counts_kept = []  # (time, None, {kind: (count, bytes)}), oldest first
census_kept = []  # the same of steps, with their numbers instead of None; census.py's own when there is one


def is_of_tensors(kind):
    return "\n" in kind


def count_alive():
    torch, classes, found = torch_module(), {}, {}
    count_into(classes, types_alive())
    if torch is not None:
        tensors = living_of(torch.Tensor)
        for one in {type(tensor) for tensor in tensors}:
            classes.pop(one, None)
        found.update(count_kinds(tensors))
    for kind, count in classes.items():
        found["%s.%s" % (kind.__module__, kind.__qualname__)] = count, 0
    return found


def grown(counts):
    """(kind, count, bytes, how many more, how many bytes more) since the earlier half of these."""
    half = len(counts) // 2
    earlier, later = [known for _, _, known in counts[:half]], [known for _, _, known in counts[half:]]
    if not earlier:
        return []
    none, found = (0, 0), []
    for kind, last in later[-1].items():
        before = max(known.get(kind, none) for known in earlier)
        least = min(known.get(kind, none) for known in later)
        if least[0] - before[0] >= (LEAST_TENSORS if is_of_tensors(kind) else LEAST_OBJECTS):
            first = earlier[0].get(kind, none)
            found.append((kind,) + last + (last[0] - first[0], last[1] - first[1]))
    return found


def find_leaks():
    """[(what grown() returns, since when, over how many steps or None)], the largest first."""
    counts_kept.append((time.time(), None, count_alive()))
    del counts_kept[:-MOST_COUNTS]
    steps = list(census_kept)
    by_steps = len(steps) >= LEAST_COUNTS
    found = []
    for leak in grown(steps) if by_steps else ():
        found.append((leak, steps[0][0], steps[-1][1] - steps[0][1]))
    for leak in grown(counts_kept):
        if not (by_steps and is_of_tensors(leak[0])):
            found.append((leak, counts_kept[0][0], None))
    found.sort(key=lambda one: (-one[0][4], -one[0][3], one[0][0]))
    return found[:MOST_LEAKS]


def members_of(kinds):
    """kind → the living tensors of it."""
    found = {kind: [] for kind in kinds}
    for tensor in living_of(torch_module().Tensor) if kinds else ():
        try:
            kind = text_of_key(key_of(tensor))
        except Exception:
            continue
        if kind in found:
            found[kind].append(tensor)
    return found


def made_by(members):
    """The operation of autograd that made most of them, with which a tensor holds all that led to it; None
    when most have none. Some may belong to the step that is under way."""
    counts = {}
    for one in members[-MOST_ASKED:]:
        try:
            node = one.grad_fn
        except Exception:
            continue  # a view of what was changed since
        name = "" if node is None else type(node).__name__
        counts[name] = counts.get(name, 0) + 1
    return max(sorted(counts), key=counts.get) or None if counts else None


def leaks_table(wanted):
    found = find_leaks()
    about_members = {"holder", "made_by", "module"} & set(wanted)
    members = members_of([leak[0] for leak, _, _ in found if is_of_tensors(leak[0])]) if about_members else {}
    for (kind, count, size, more, more_bytes), since, steps in found:
        tensor = is_of_tensors(kind)
        name, shape, dtype, device = parts_of_kind(kind) if tensor else (kind, None, None, None)
        own = members.pop(kind, [])
        yield {
            "type": name,
            "shape": shape,
            "dtype": dtype,
            "device": device,
            "count": count,
            "bytes": size if tensor else None,
            "grown": more,
            "grown_bytes": more_bytes if tensor else None,
            "made_by": made_by(own),
            "holder": chain_of(own) if own and "holder" in wanted else None,
            "module": made_in(own) if own and "module" in wanted else None,
            "since": int(since * 1e9),
            "steps": steps,
        }
        del own


TABLES["python.leaks"] = leaks_table
