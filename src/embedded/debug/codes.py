# Finds the code that a file and line, or the name of a function, stands for. Runs in the target. Python 3.6
# syntax, built-in modules only.
import sys

from ..core.describe import Refused
from ..core.heap import living_of
from ..core.own import is_own
from ..core.recompile import FUNCTION, nested, own_lines


def need_gil():
    """What is below relies on the GIL to order what threads do."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise Refused("this Python runs without a GIL; points and the debugger need one")


def first_statement(code):
    lines = sorted(own_lines(code))
    later = [line for line in lines if line > code.co_firstlineno]
    return later[0] if later else lines[0]


def same_file(code, file):
    name = code.co_filename
    return name == file or name.endswith("/" + file.lstrip("./"))


def all_code():
    """Every code object that is in use: of functions, and of what runs now."""
    seen = set()

    def fresh(code):
        for each in nested(code):
            if id(each) not in seen:
                seen.add(id(each))
                yield each

    for frame in sys._current_frames().values():
        while frame is not None:
            if not is_own(frame.f_globals):
                for code in fresh(frame.f_code):
                    yield code
            frame = frame.f_back
    for thing in living_of(FUNCTION):
        if not is_own(thing.__globals__):
            for code in fresh(thing.__code__):
                yield code


def find_line(file, line):
    """The code objects that have this line."""
    in_file = [code for code in all_code() if same_file(code, file)]
    found = [code for code in in_file if line in own_lines(code)]
    if found:
        return found
    if not in_file:
        raise Refused("no function of %s is loaded in this process" % file)
    lines = sorted(set().union(*[own_lines(code) for code in in_file]), key=lambda other: abs(other - line))
    raise Refused("line %d of %s has no code; the nearest that has: %s" % (line, file, lines[0]))


def qualified(code):
    return getattr(code, "co_qualname", code.co_name)


def find_function(name):
    """The code of a function: `train`, `Model.forward`, `package.module.function`."""
    for split in range(name.count(".") + 1):
        parts = name.split(".")
        at = len(parts) - 1 - split
        module = sys.modules.get(".".join(parts[:at]) if at else "__main__")
        value = module
        try:
            for part in parts[at:]:
                value = getattr(value, part)
        except AttributeError:
            continue
        value = getattr(value, "__wrapped__", value)
        code = getattr(getattr(value, "__func__", value), "__code__", None)
        if code is not None:
            return [code]
    last = name.split(".")[-1]
    found = [code for code in all_code() if code.co_name == last and qualified(code).endswith(name)]
    if not found and "." in name:  # before 3.11 code does not know its class
        found = [thing.__code__ for thing in living_of(FUNCTION) if thing.__qualname__.endswith(name)]
    if not found:
        raise Refused("no function %s is loaded in this process" % name)
    return found


def parse_place(text):
    """`file.py:12` as (codes, line), `function` as (codes, None)."""
    file, colon, line = text.rpartition(":")
    if colon and line.isdigit():
        return find_line(file, int(line)), int(line)
    return find_function(text), None
