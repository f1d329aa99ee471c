# Runs in the target, on a thread of the probe. Python 3.6 syntax; imports only built-in modules,
# so that the job's sys.modules stays as it is.
import _ast
import sys

from ..core.alone import undos
from ..core.describe import Capture, Refused, describe
from ..core.still import guard_gradients, unguard_gradients
from .capture import Stream, install
from .interrupt import Ended

ONLY_AST = 0x400  # ast.PyCF_ONLY_AST, without importing ast
FILE_NAME = "<probing>"


class Incomplete(Exception):
    """More lines have to follow; raised instead of an answer."""


def run(source, namespace, tree=None):
    tree = tree or compile(source, FILE_NAME, "exec", ONLY_AST)
    value = None
    last = tree.body[-1] if tree.body else None
    if isinstance(last, _ast.Expr):
        tree.body.pop()
    else:
        last = None
    if tree.body:
        exec(compile(tree, FILE_NAME, "exec"), namespace)
    if last is not None:
        value = eval(compile(_ast.Expression(last.value), FILE_NAME, "eval"), namespace)
    return value


def parse_options(options):
    """b"key\\0value\\0…" as a dict."""
    parts = options.decode("utf-8", "replace").split("\0")
    return dict(zip(parts[::2], parts[1::2]))


hints = []  # what sessions know about a NameError: functions (error, options) that return lines
operations = {}  # those of sessions: options["op"] → function(source, options) that returns text or None
at_end = []  # of the evaluation under way: functions that may have something to say on stderr


def find_operation(name):
    """What does it; loaded when it is asked for the first time."""
    if name == "complete":
        from .complete import talk_complete

        return talk_complete
    if name == "debug":
        from ..debug.debug_words import talk_debug

        return talk_debug
    if name == "log":
        from ..debug.watch import talk_log

        return talk_log
    if name == "profile":
        from .profile import talk_profile

        return talk_profile
    if name == "gpu_memory":
        from .gpu_memory import talk_gpu_memory

        return talk_gpu_memory
    if name == "script":
        from .script import talk_script

        return talk_script
    return operations[name]


def evaluate(source, limit, options):
    """Returns (raised, stdout, stderr, value, traceback, cut) as bytes; value and traceback are
    None when there is none. What is to be done with the source is options["op"]."""
    chosen = parse_options(options)
    streams = chosen.get("stream") == "1"
    out, err = [Stream(limit, number) if streams else Capture(limit) for number in (0, 1)]
    trace = Capture(limit)
    value = None
    raised = ""
    install((out, err), chosen)
    chosen["limit"] = limit
    undos.append(unguard_gradients)
    del at_end[:]
    try:
        guard_gradients()
        text = find_operation(chosen.get("op", "eval"))(source.decode("utf-8"), chosen)
        if text is not None:
            value = Capture(limit)
            value.write(text)
        del text
    except BaseException:
        kind, error, _ = sys.exc_info()
        raised = "KeyboardInterrupt" if kind is Ended else kind.__name__
        if issubclass(kind, Refused):
            trace.write("%s\n" % error)
        elif kind is not Incomplete:
            describe(error, trace.write, set())
            if kind is NameError and chosen.get("op", "eval") in ("eval", "line"):
                trace.write("".join(hint(error, chosen) for hint in hints))
        del kind, error

    for note in at_end:
        err.write(note())
    del at_end[:]

    def as_bytes(text):
        return text.encode("utf-8", "backslashreplace")

    cut = out.cut or err.cut or trace.cut or (value is not None and value.cut)
    return (
        as_bytes(raised),
        as_bytes(out.text()),
        as_bytes(err.text()),
        None if value is None else as_bytes(value.text()),
        as_bytes(trace.text()) if raised else None,
        b"1" if cut else b"",
    )
