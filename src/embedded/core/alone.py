# Functions of ours that the job may be inside of when we have gone, or keep: they see a few names only, and
# so do not keep all of ours alive. Runs in the target. Python 3.6 syntax, built-in modules only.
import _thread
import posix

STAND_ALONE = {"__builtins__": __builtins__, "_thread": _thread, "posix": posix}
undos = []  # of the evaluation under way: functions


def stand_alone(cls, names):
    """Its methods see these names only."""
    function = type(stand_alone)
    for name, value in list(vars(cls).items()):
        if isinstance(value, property):
            setattr(cls, name, property(function(value.fget.__code__, names, name)))
        elif isinstance(value, function):
            setattr(cls, name, function(value.__code__, names, name))


def alone(function):
    """The same, but a thread of the job that is inside of it for long does not keep all of ours alive."""
    return type(function)(function.__code__, STAND_ALONE, function.__name__, None, function.__closure__)
