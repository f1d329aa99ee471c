# Functions of the job with calls of ours around them. Runs in the target with the GIL. Python 3.6 syntax,
# built-in modules only.
#
# A function that the job may keep uses no global of this namespace: it is emptied when the probe leaves. It
# finds what it needs in `live`, a dict that is empty from then on, and does nothing but call the original.

live = {}
undo = {}  # word of the setting → functions to call, last first


def wrap(original, name, before=None, after=None):
    """A function that calls the original, and live[before] and live[after] around it. Whatever
    these do, the caller sees what the original does."""
    shared = live

    def wrapper(*args, **kwargs):
        note = None
        record = shared.get(before)
        if record is not None:
            try:
                note = record(*args, **kwargs)
            except Exception:
                pass
        result = original(*args, **kwargs)
        record = shared.get(after)
        if record is not None:
            try:
                record(note, *args, **kwargs)
            except Exception:
                pass
        return result

    for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
        try:
            setattr(wrapper, attribute, getattr(original, attribute))
        except (AttributeError, TypeError):
            pass
    wrapper.__wrapped__ = original  # inspect.signature() looks there
    return wrapper


def replace(word, owner, name, before=None, after=None):
    """Wraps a function of a module or class, once. Returns whether it is wrapped now."""
    namespace = vars(owner)
    original = namespace.get(name)
    if original is None:
        return False
    if any(entry[:2] == (owner, name) and entry[2] is original for entry in undo.setdefault(word, [])):
        return True
    wrapper = wrap(original, name, before, after)
    setattr(owner, name, wrapper)
    undo[word].append((owner, name, wrapper, original))
    return True


def put_back(word):
    for owner, name, wrapper, original in reversed(undo.pop(word, [])):
        if vars(owner).get(name) is wrapper:  # else somebody has wrapped ours; it goes on working
            setattr(owner, name, original)
