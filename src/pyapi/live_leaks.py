# ruff: noqa: F821  live_torch.py comes before this file.
# python.leaks: what there is more and more of. Runs in the target, on a thread of the probe. Python 3.6
# syntax, built-in modules only.
#
# Each question counts what is alive, and the counts of the last questions are kept. A kind has grown when
# each of the later counts is higher than all of the earlier ones: what comes and goes within a step, or
# waits for the collector, is not called a leak.
import time
from _collections import _count_elements as count_into  # collections is no built-in module

MOST_COUNTS = 16  # that are kept
MOST_LEAKS = 20  # that are named
LEAST_TENSORS, LEAST_OBJECTS = 2, 20  # that there must be more of
counts_kept = []  # (time, {kind: [count, bytes]}), oldest first


def kind_of_tensor(tensor):
    """One text, which the collector does not follow: a count must not look like a leak itself."""
    parts = (type(tensor).__name__, list(tensor.shape), tensor.dtype, tensor.device)
    return "%s\n%s\n%s\n%s" % parts


def count_alive():
    torch, classes, found = torch_module(), {}, {}
    count_into(classes, types_alive())
    kinds = [one for one in classes if torch is not None and issubclass(one, torch.Tensor)]
    for tensor in living(kinds):
        classes.pop(type(tensor), None)
        try:
            kind, size = kind_of_tensor(tensor), tensor.element_size() * tensor.numel()
        except Exception:
            continue  # a class of the job's own that does not answer
        count, total = found.get(kind, (0, 0))
        found[kind] = count + 1, total + size
    for kind, count in classes.items():
        found["%s.%s" % (kind.__module__, kind.__qualname__)] = count, 0
    return found


def grown(counts):
    """(kind, how many more, how many bytes more) since the earlier half of these."""
    half = len(counts) // 2
    earlier, later = [known for _, known in counts[:half]], [known for _, known in counts[half:]]
    if not earlier:
        return []
    none, found = (0, 0), []
    for kind in later[-1]:
        before = max(known.get(kind, none) for known in earlier)
        least = min(known.get(kind, none) for known in later)
        if least[0] - before[0] >= (LEAST_TENSORS if "\n" in kind else LEAST_OBJECTS):
            first, last = earlier[0].get(kind, none), later[-1][kind]
            found.append((kind, last[0] - first[0], last[1] - first[1]))
    found.sort(key=lambda one: (-one[2], -one[1], one[0]))
    return found[:MOST_LEAKS]


def members_of(kinds):
    """kind → the living tensors of it."""
    found = {kind: [] for kind in kinds}
    for tensor in living_of(torch_module().Tensor) if kinds else ():
        try:
            kind = kind_of_tensor(tensor)
        except Exception:
            continue
        if kind in found:
            found[kind].append(tensor)
    return found


def made_by(members):
    """The operation of autograd that made a tensor; with it the tensor holds all that led to it."""
    for one in members:
        node = getattr(one, "grad_fn", None)
        if node is not None:
            return type(node).__name__
    return None


def leaks_table(wanted):
    now = time.time()
    counts_kept.append((now, count_alive()))
    del counts_kept[:-MOST_COUNTS]
    found = grown(counts_kept)
    tensors = [kind for kind, _, _ in found if "\n" in kind]
    members = members_of(tensors) if "holder" in wanted or "made_by" in wanted else {}
    last = counts_kept[-1][1]
    for kind, more, more_bytes in found:
        name, shape, dtype, device = (kind.split("\n") + [None] * 3)[:4]
        own = members.pop(kind, [])
        yield {
            "type": name,
            "shape": shape,
            "dtype": dtype.replace("torch.", "") if dtype else None,
            "device": device,
            "count": last[kind][0],
            "bytes": last[kind][1] if shape is not None else None,
            "grown": more,
            "grown_bytes": more_bytes if shape is not None else None,
            "made_by": made_by(own),
            "holder": chain_of(own) if own and "holder" in wanted else None,
            "since": int(counts_kept[0][0] * 1e9),
        }
        del own


TABLES["python.leaks"] = leaks_table
