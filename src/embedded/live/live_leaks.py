# python.leaks: what there is more and more of. Runs in the target, on a thread of the probe. Python 3.6
# syntax, built-in modules only.
#
# Each question counts what is alive, and the counts of the last questions are kept; tensors are counted at
# the ends of steps instead, where census.py does that. A kind has grown when each of the later counts is
# higher than all of the earlier ones: what comes and goes within a step, or waits for the collector, is not
# called a leak.
import time

from ..core.heap import count_classes, paces, weakly_living
from ..core.kinds import count_kinds, key_of, parts_of_kind, text_of_key
from ..core.still import NotStill, loaded_torch, read_still
from .holders import chains_of
from .lent import counts_kept, lent
from .made_in import made_in

MOST_COUNTS = 16  # that are kept
LEAST_COUNTS = 4  # of a census, before it is believed
MOST_LEAKS = 20  # that are named
MOST_MADE = 2000  # tensors of a kind that are asked what made them, the youngest first
LEAST_TENSORS, LEAST_OBJECTS = 2, 20  # that there must be more of


def is_of_tensors(kind):
    return "\n" in kind


def count_alive(pace):
    torch, found = loaded_torch(), {}
    classes = count_classes(pace)
    if torch is not None:
        refs = weakly_living((torch.Tensor,), pace)
        for one in [one for one in classes if issubclass(one, torch.Tensor)]:
            del classes[one]
        found.update(count_kinds(one() for one in refs))
    for kind, count in classes.items():
        found[name_of_class(kind)] = count, 0
    return found


def name_of_class(kind):
    return "%s.%s" % (kind.__module__, kind.__qualname__)


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


def find_leaks(pace):
    """[(what grown() returns, since when, over how many steps or None)], the largest first. An incomplete
    count is not kept: it would look as if something had gone."""
    counts = time.time(), None, count_alive(pace)
    if pace.partial is None:
        counts_kept.append(counts)
        del counts_kept[:-MOST_COUNTS]
    steps = list(lent["census_kept"])
    by_steps = len(steps) >= LEAST_COUNTS
    found = []
    for leak in grown(steps) if by_steps else ():
        found.append((leak, steps[0][0], steps[-1][1] - steps[0][1]))
    for leak in grown(counts_kept):
        if not (by_steps and is_of_tensors(leak[0])):
            found.append((leak, counts_kept[0][0], None))
    found.sort(key=lambda one: (-one[0][4], -one[0][3], one[0][0]))
    return found[:MOST_LEAKS]


def members_of(kinds, pace):
    """kind → weak references to the living tensors of it."""
    found = {kind: [] for kind in kinds}
    for reference in weakly_living((loaded_torch().Tensor,), pace) if kinds else ():
        try:
            kind = text_of_key(key_of(reference()))
        except Exception:
            continue  # gone, or a class of the job's own that does not answer
        if kind in found:
            found[kind].append(reference)
        if not pace.breathe():
            break
    return found


def objects_of(names, pace):
    """name of a class → weak references to its living objects; none where the class knows no such."""
    found = {name: [] for name in names}
    known = count_classes(pace) if names else ()
    kinds = [one for one in known if one.__weakrefoffset__ and name_of_class(one) in found]
    for reference in weakly_living(tuple(kinds), pace) if kinds else ():
        one = reference()
        if type(one) in kinds:
            found[name_of_class(type(one))].append(reference)
        del one
        if not pace.breathe():
            break
    return found


def made_by(members, pace):
    """The operation of autograd that made most of them, with which a tensor holds all that led to it; None
    when most have none. Some may belong to the step that is under way."""
    counts, torch = {}, loaded_torch()
    for one in members[-MOST_MADE:]:
        try:
            with torch._C.DisableTorchFunction():
                node = read_still(torch.Tensor.grad_fn.__get__, (one(),), pace.until)
        except NotStill as error:
            pace.stop(str(error))
            break
        except Exception:
            continue  # gone, or a view of what was changed since
        name = "" if node is None else type(node).__name__
        del node
        counts[name] = counts.get(name, 0) + 1
        if not pace.breathe():
            break
    return max(sorted(counts), key=counts.get) or None if counts else None


def leaks_table(wanted):
    pace = paces[-1]
    found = find_leaks(pace)
    about_members = {"holder", "made_by", "module"} & set(wanted)
    kinds = [leak[0] for leak, _, _ in found if is_of_tensors(leak[0])]
    members = members_of(kinds, pace) if about_members else {}
    chains = {}
    if "holder" in wanted:
        others = objects_of([leak[0] for leak, _, _ in found if not is_of_tensors(leak[0])], pace)
        chains = chains_of(dict(others, **members), pace)
        del others
    for (kind, count, size, more, more_bytes), since, steps in found:
        tensor = is_of_tensors(kind)
        name, shape, dtype, device = parts_of_kind(kind) if tensor else (kind, None, None, None)
        own = members.get(kind, [])
        yield {
            "type": name,
            "shape": shape,
            "dtype": dtype,
            "device": device,
            "count": count,
            "bytes": size if tensor else None,
            "grown": more,
            "grown_bytes": more_bytes if tensor else None,
            "made_by": made_by(own, pace) if own and "made_by" in wanted else None,
            "holder": chains.get(kind),
            "module": made_in(own, pace) if own and "module" in wanted else None,
            "since": int(since * 1e9),
            "steps": steps,
        }
