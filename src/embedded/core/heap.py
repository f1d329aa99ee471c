# Looks at all objects the collector knows. Runs in the target, on a thread of the probe. Python 3.6 syntax,
# built-in modules only.
#
# A job may have millions of objects. So they are looked at in slices of some two milliseconds, by one call of
# native code each (heap.h), and between two slices the GIL is given up for as long as it was held. Whatever
# is found is referred to weakly: a look must not keep the tensors of a step alive while the next one runs.
import gc
import time
from _weakref import ref

HOLD_US = 2000  # of one slice
LEAST_PAUSE, MOST_PAUSE = 0.001, 0.01  # seconds between two
MOST_WALKS = 3  # of one look, when full collections come between its slices
DEFAULT_SECONDS = 4.0  # for all of a table, when it was not said


class Pace(object):
    """How long a look may hold the GIL at once, and how long it may take in all."""

    def __init__(self, seconds):
        self.held_from = time.perf_counter()
        self.until = self.held_from + seconds
        self.partial = None  # why the answer is not complete

    def is_over(self):
        return time.perf_counter() >= self.until

    def stop(self, why):
        self.partial = self.partial or why

    def pause(self):
        """Gives the GIL up. False when the time is over."""
        held = time.perf_counter() - self.held_from
        time.sleep(min(max(held, LEAST_PAUSE), MOST_PAUSE))
        self.held_from = time.perf_counter()
        if self.held_from < self.until:
            return True
        self.stop("the time limit was reached")
        return False

    def breathe(self):
        """To be called often: pauses when that is due. False when the time is over."""
        now = time.perf_counter()
        if (now - self.held_from) * 1e6 < HOLD_US and now < self.until:
            return True
        return self.pause()


paces = []  # of the table that is being made


def heap_slice(cursor, begins, hold_us, mode, argument, skipped):
    """Where there is no GIL, this is not replaced: one slice, with what gc offers."""
    found = [False]
    if mode == "refer":
        wanted = {id(one) for one in argument}
        for holder in gc.get_referrers(*argument) if argument else ():
            for one in gc.get_referents(holder):
                if id(one) in wanted and type(holder) is not tuple:
                    found += [holder, id(one), None]
        return found
    for one in gc.get_objects():
        if mode == "count":
            found += [type(one), 1]
        elif issubclass(type(one), argument):
            try:
                found.append(one if mode == "hold" else ref(one))
            except TypeError:
                pass
    return found


def address_set(objects):
    return tuple(one for one in objects if type(one) is not int)


def full_collections():
    return gc.get_stats()[-1].get("collections")


def walk(mode, argument, pace, add, again, skipped=b""):
    """Calls add(what one slice has found) until all objects were seen or the time is over. A full collection
    in between may have changed their order: then again(), and all from the beginning."""
    for _ in range(MOST_WALKS):
        cursor, before = [], full_collections()
        found, slices = heap_slice(cursor, True, HOLD_US, mode, argument, skipped), 1
        while found[0]:
            add(found)
            del found
            if not pace.pause():
                return
            found = heap_slice(cursor, False, HOLD_US, mode, argument, skipped)
            slices += 1
        add(found)
        del found
        if slices == 1 or full_collections() == before:
            return
        if not pace.pause():
            break
        again()
    pace.stop("collections came between, some objects may be missing")


def weakly_living(kinds, pace):
    """Weak references to the objects of these classes and of those that are made from them. Their classes
    are asked, not they: some of them pretend."""
    refs = {}
    walk("pick", kinds, pace, lambda found: refs.update((id(one), one) for one in found[1:]), refs.clear)
    return list(refs.values())


def living_of(kind):
    """The objects themselves, of a class that has few and small ones."""
    found = [one() for one in weakly_living((kind,), Pace(DEFAULT_SECONDS))]
    return [one for one in found if one is not None]


def alive_now(kind, seconds):
    """(whether these are all, the objects), in one slice: for the thread that trains, between two steps."""
    found = heap_slice([], True, int(seconds * 1e6), "hold", (kind,), b"")
    return not found[0], found[1:]


def count_classes(pace):
    """class → how many objects"""
    counts = {}

    def add(found):
        for kind, count in zip(found[1::2], found[2::2]):
            counts[kind] = counts.get(kind, 0) + count

    walk("count", None, pace, add, counts.clear)
    return counts


def each_referrer(objects, pace, note, again, skipped=()):
    """note(holder, address, key) for what refers to these objects or addresses, all in one walk; a holder
    that is a tuple is given by its address, which may be looked for in turn."""

    def add(found):
        triples = iter(found)
        next(triples)
        for holder, address, key in zip(triples, triples, triples):
            note(holder, address, key)

    walk("refer", address_set(objects), pace, add, again, address_set(skipped))


def referrers(objects):
    """What refers to these few objects: no tuples, but what refers to those."""
    pace, found, tuples = Pace(DEFAULT_SECONDS), {}, set()

    def note(holder, address, key):
        if type(holder) is int:
            tuples.add(holder)
        else:
            found[id(holder)] = holder

    each_referrer(objects, pace, note, found.clear)
    if tuples:
        each_referrer(
            tuples, pace, lambda holder, *_: type(holder) is int or note(holder, 0, None), gc.isenabled
        )
    found.pop(id(objects), None)
    return list(found.values())
