# Who keeps objects alive: from them up to a variable, as one line of text. Runs in the target, on a thread
# of the probe. Python 3.6 syntax, built-in modules only.
#
# Each link is one walk through all objects the collector knows, for all crowds of objects together.
import gc
import sys

from ..core.heap import each_referrer
from ..core.own import is_own
from .lent import counts_kept, lent

MOST_LINKS = 6
MOST_OF_A_CROWD = 100  # objects of a kind that stand for all
OPTIMIZED = 1  # of co_flags: local variables are copied when they are asked for


def is_ours(holder):
    """A frame or generator of the code you are reading."""
    frame = getattr(holder, "gi_frame", None) or (holder if hasattr(holder, "f_globals") else None)
    return is_own(getattr(frame, "f_globals", None))


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
            if not is_own(frame.f_globals):
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


class Chain(object):
    """From a crowd of objects up to a variable."""

    def __init__(self, crowd):
        self.crowd, self.links, self.ended = crowd, [], not crowd
        self.seen = {id(counts_kept), id(lent["looked_at"])}
        self.found, self.tuples = {}, {}

    def begin(self):
        """The next link. False when no walk is needed for it."""
        variable = variable_of(self.crowd[0]) if len(self.crowd) == 1 else None
        if variable is not None:
            self.links.append(variable)
            self.ended = True
        self.again()
        return not self.ended

    def again(self):
        self.found, self.tuples = {}, {}  # id of a holder → (holder, how many of the crowd it has)

    def note(self, holder, address):
        if type(holder) is int:
            self.tuples[holder] = self.tuples.get(holder, 0) + 1
        elif id(holder) not in self.seen and not is_ours(holder):
            self.found[id(holder)] = holder, self.found.get(id(holder), (None, 0))[1] + 1

    def end(self):
        """Makes the link of what was found, and goes on with that."""
        best, most = None, 0
        for holder, has in self.found.values():
            # A module's own namespace names best; a frame tells no name.
            if has > most or has == most and type(holder) is dict:
                best, most = holder, has
        if best is None:
            self.links.append("native code" if not self.links else "a variable that is not found")
            self.ended = True
            return
        self.seen.update(id(one) for one in self.crowd)
        if most == 1 and len(self.crowd) > 1:  # each has a holder of its own: go on with all of them
            kinds = [type(holder) for holder, _ in self.found.values()]
            kind = max(set(kinds), key=kinds.count)
            self.links.append("a %s each" % kind.__name__)
            self.crowd = [one for one, _ in self.found.values() if type(one) is kind][:MOST_OF_A_CROWD]
        else:
            text, self.ended = link_text(best, self.crowd[0] if len(self.crowd) == 1 else None)
            self.links.append(text)
            self.crowd = [best]
        self.again()


def find_holders(chains, pace):
    """One walk for the crowds of all chains, and one for what is in tuples."""
    owners, tuples = {}, {}  # address → chains
    skipped = [chain.crowd for chain in chains] + [chains, owners]

    def note(holder, address, key):
        for chain in owners.get(address, ()):
            chain.note(holder, address)

    def again():
        for chain in chains:
            chain.again()

    def note_tuple(holder, address, key):
        for chain in tuples.get(address, ()) if type(holder) is not int else ():
            chain.note(holder, address)

    for chain in chains:
        for one in chain.crowd:
            owners.setdefault(id(one), []).append(chain)
    each_referrer(list(owners), pace, note, again, skipped)
    for chain in chains:
        for address in chain.tuples:
            tuples.setdefault(address, []).append(chain)
    if tuples and not pace.is_over():
        each_referrer(list(tuples), pace, note_tuple, gc.isenabled, skipped)


def chains_of(members, pace):
    """kind → text, as in "list of 512 ← history in train() at train.py:42", for weak references to the
    objects of each kind."""
    chains = {}
    for kind, refs in members.items():
        crowd = [one for one in [one() for one in refs[-MOST_OF_A_CROWD:]] if one is not None]
        if crowd:
            chains[kind] = Chain(crowd)
        del crowd
    for _ in range(MOST_LINKS):
        under_way = [chain for chain in chains.values() if not chain.ended and chain.begin()]
        if not under_way or pace.is_over():
            break
        find_holders(under_way, pace)
        for chain in under_way:
            chain.end()
    return {kind: " ← ".join(chain.links) for kind, chain in chains.items() if chain.links}
