# ruff: noqa: F821  live.py comes before this file.
# Who keeps objects alive: from them up to a variable, as one line of text. Runs in the target, on a thread
# of the probe. Python 3.6 syntax, built-in modules only.
#
# Each link is one look at all objects the collector knows, which holds the GIL: milliseconds in most
# jobs. So there are few links, and a crowd of objects is looked up together.
import gc
import sys

MOST_LINKS = 6
MOST_OF_A_CROWD = 100  # objects of a kind that stand for all: each is compared with every reference there is
looked_at = []  # census.py's own when there is one
OPTIMIZED = 1  # of co_flags: local variables are copied when they are asked for


def is_ours(holder):
    """A frame or generator of the code you are reading."""
    frame = getattr(holder, "gi_frame", None) or (holder if hasattr(holder, "f_globals") else None)
    return getattr(frame, "f_globals", None) is globals()


def variable_of(wanted):
    """The running function and the variable in it that is this object, as text; None when there is none.
    The outermost of several: who called handed it on."""
    found, frames, frame = None, frames_of_all(), None
    try:
        for frame in frames:
            name = name_in_frame(frame, wanted)
            if name is not None:
                code = frame.f_code
                place = code.co_name, code.co_filename.rpartition("/")[2], frame.f_lineno
                found = "%s in %s() at %s:%d" % ((name,) + place)
        return found
    finally:
        del frames[:], frame


def frames_of_all():
    """Of all threads, innermost first, without ours. A function that returns while we look has no caller any
    more: first they are gathered, which is quick, then they may be looked at."""
    gathered = []
    for frame in sys._current_frames().values():
        while frame is not None:
            if frame.f_globals is not globals():
                gathered.append(frame)
            frame = frame.f_back
    return gathered


def name_in_frame(frame, wanted):
    local = frame.f_locals
    try:
        for name, value in list(local.items()):
            if value is wanted:
                return name
        return None
    finally:
        value = None
        # Before 3.13 this is a copy that the frame keeps, and with it what the variables were: exprs.py.
        if frame.f_code.co_flags & OPTIMIZED and type(local) is dict and sys.getrefcount(local) == 3:
            local.clear()


def module_of(namespace):
    for name, module in list(sys.modules.items()):
        if getattr(module, "__dict__", None) is namespace:
            return name
    return None


def name_in_dict(holder, wanted):
    for name, value in list(holder.items()):
        if value is wanted:
            return name if isinstance(name, str) else None
    return None


def link_text(holder, wanted):
    """(text, whether the chain ends here) for one holder of one object."""
    kind = type(holder)
    if kind is dict:
        name, module = name_in_dict(holder, wanted), module_of(holder)
        if module is not None:
            return "%s in module %s" % (name, module), True
        return ("[%r] of a dict of %d" % (name, len(holder)) if name else "dict of %d" % len(holder)), False
    if hasattr(holder, "f_code"):
        return "a variable in %s()" % holder.f_code.co_name, True
    if hasattr(holder, "__code__"):
        return "function %s" % getattr(holder, "__qualname__", "?"), True
    if kind in (list, set):
        return "%s of %d" % (kind.__name__, len(holder)), False
    try:
        name = name_in_dict(object.__getattribute__(holder, "__dict__"), wanted)
    except Exception:
        name = None
    return "%s of a %s" % (name, kind.__name__) if name else kind.__name__, False


def who_holds_most(crowd, seen):
    """(holders, the one that has most of the crowd, how many that are)."""
    ids, best, most = {id(one) for one in crowd}, None, 0
    found = []
    for holder in referrers(crowd):
        if holder is crowd or id(holder) in seen or is_ours(holder):
            continue
        found.append(holder)
        has = sum(1 for one in gc.get_referents(holder) if id(one) in ids)
        # A module's own namespace names best; a frame tells no name.
        if has > most or has == most and type(holder) is dict:
            best, most = holder, has
    return found, best, most


def chain_of(objects):
    """As in "list of 512 ← history in train() at train.py:42"."""
    crowd, links, seen = objects[-MOST_OF_A_CROWD:], [], {id(objects), id(counts_kept), id(looked_at)}
    for _ in range(MOST_LINKS):
        variable = variable_of(crowd[0]) if len(crowd) == 1 else None
        if variable is not None:
            links.append(variable)
            break
        seen.add(id(crowd))
        found, best, most = who_holds_most(crowd, seen)
        if best is None:
            links.append("native code" if not links else "a variable that is not found")
            break
        seen.update(id(one) for one in crowd)
        if most == 1 and len(crowd) > 1:  # each has a holder of its own: go on with all of them
            kinds = [type(one) for one in found]
            kind = max(set(kinds), key=kinds.count)
            links.append("a %s each" % kind.__name__)
            crowd = [one for one in found if type(one) is kind][:MOST_OF_A_CROWD]
        else:
            text, ends = link_text(best, crowd[0] if len(crowd) == 1 else None)
            links.append(text)
            if ends:
                break
            crowd = [best]
        del found, best
    return " ← ".join(links)
