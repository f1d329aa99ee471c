# repr() of a value whose length is known before: repr() of 500 MB takes seconds with the GIL, and gigabytes.
# Runs in the target. Python 3.6 syntax, built-in modules only.
#
# What is short enough is shown by repr() itself. Of what is not, the beginning is shown. Objects of the job's
# own classes have a __repr__ of their own, which is Python code: it can be interrupted.
import sys
from itertools import islice

MOST_SHOWN = 1000000  # characters, when it was not said
MOST_DEPTH = 20
LEAST_ITEM = 3  # characters that an entry of a list takes at least: "0, "
DIGITS_PER_BIT = 0.30103
MOST_ARRAY = 1000  # elements: numpy itself shows the ends of a longer one, unless it was told to show all

TEXTS = (str, bytes, bytearray)
LISTS = (list, tuple, set, frozenset)
BRACKETS = {list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}"), frozenset: ("frozenset({", "})")}


def kind_of(value):
    """The built-in class whose repr() this value has, or None."""
    for kind in TEXTS + LISTS + (dict, int):
        if isinstance(value, kind):
            return kind if type(value).__repr__ is kind.__repr__ else None
    return None


def entries(value, most):
    """The first of them, in one call: other threads may change what they belong to."""
    return list(islice(value.items() if isinstance(value, dict) else value, most))


def length_within(value, most, depth):
    """About how many characters repr() takes; more than `most` when there are more, or nobody knows."""
    kind = kind_of(value)
    if kind in TEXTS:
        return len(value) + 2
    if kind is int:
        return int(value.bit_length() * DIGITS_PER_BIT) + 2
    if kind is None:
        return length_of_other(value, most, depth)
    if depth == 0:
        return LEAST_ITEM  # deeper than anything that is looked into; repr() of a cycle is "..."
    length = LEAST_ITEM * len(value)
    if length > most:
        return length
    for entry in entries(value, most):
        if kind is dict:
            length += length_within(entry[0], most, depth - 1) + length_within(entry[1], most, depth - 1)
        else:
            length += length_within(entry, most, depth - 1)
        if length > most:
            break
    return length


def length_of_other(value, most, depth):
    """Of a class with a __repr__ of its own, as far as its size tells."""
    if is_container(value):
        return LEAST_ITEM * len(value)
    if is_array(value):
        return LEAST_ITEM * value.size if value.size > MOST_ARRAY else LEAST_ITEM
    return LEAST_ITEM


def is_container(value):
    return isinstance(value, LISTS + (dict,)) or type(value).__name__ == "deque"


def is_array(value):
    numpy = sys.modules.get("numpy")
    kind = getattr(numpy, "ndarray", None)
    return isinstance(kind, type) and isinstance(value, kind)


def bounded_repr(value, most=MOST_SHOWN):
    """repr(value) when it has not many more characters than `most`; else about as many of its beginning."""
    if length_within(value, most, MOST_DEPTH) <= most:
        return repr(value)
    return beginning_of(value, most, MOST_DEPTH)


def beginning_of(value, most, depth):
    kind = kind_of(value)
    if kind in TEXTS:
        return repr(value) if len(value) <= most else "%s… (%d in all)" % (repr(value[:most]), len(value))
    if kind is int and length_within(value, most, 0) > most:
        return "<int of %d bits>" % value.bit_length()
    if is_array(value) and value.size > MOST_ARRAY:
        return "<%s of shape %s, %s>" % (type(value).__name__, value.shape, value.dtype)
    if kind is None and is_container(value) and length_within(value, most, 0) > most:
        return "<%s of %d>" % (type(value).__name__, len(value))
    if kind is None or kind is int:
        return repr(value)
    if depth == 0:
        return "…"
    return beginning_of_entries(value, kind, most, depth)


def beginning_of_entries(value, kind, most, depth):
    opening, closing = BRACKETS.get(kind, ("{", "}"))
    parts, left, count = [], most, len(value)
    for entry in entries(value, most // LEAST_ITEM + 1):
        if left <= 0:
            break
        if kind is dict:
            key = beginning_of(entry[0], left, depth - 1)
            parts.append("%s: %s" % (key, beginning_of(entry[1], max(left - len(key), 1), depth - 1)))
        else:
            parts.append(beginning_of(entry, left, depth - 1))
        left -= len(parts[-1]) + 2
    if len(parts) < count:
        parts.append("… (%d in all)" % count)
    return opening + ", ".join(parts) + closing
