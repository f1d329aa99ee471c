# Looks at all objects the collector knows. Runs in the target, on a thread of the probe. Python 3.6 syntax,
# built-in modules only.
#
# gc.get_objects() also finds tuples that another thread is about to make: tuple(generator) fails, in the
# job, when somebody else has a reference to its half-made tuple while it grows. So nothing of what is found
# may be held when the GIL changes hands, which it does between instructions of Python, and never within one
# call of native code. What we want is picked by heap.cc; tuples are left out.
import gc
from itertools import chain, islice


def types_alive():
    """An iterator over the classes of all objects, for one call of native code; gc is asked within."""
    return map(type, chain.from_iterable(islice(iter(gc.get_objects, None), 1)))


def pick(get, base):
    """Where there is no GIL, this is not replaced."""
    return [one for one in get() if issubclass(type(one), base)]


def pick_referrers(get, objects):
    return [one for one in get(*objects) if type(one) is not tuple]


def living_of(kind):
    """The objects of a class and of those that are made from it. Their classes are asked, not they: some
    of them pretend."""
    return pick(gc.get_objects, kind)


def referrers(objects):
    """What refers to these: no tuples, but what refers to those."""
    return pick_referrers(gc.get_referrers, objects)
