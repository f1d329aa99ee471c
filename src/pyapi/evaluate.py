# ruff: noqa: F821  describe.py and capture.py come before this file; session.py and others after it.
# Runs in the target, on a thread of the probe. Python 3.6 syntax; imports only built-in modules,
# so that the job's sys.modules stays as it is. Everything here is private to the probe: the
# namespace is a dict that no module of the job refers to.
import _ast
import sys

ONLY_AST = 0x400  # ast.PyCF_ONLY_AST, without importing ast
FILE_NAME = "<probing>"


def settle():
    """Executes enough for an asynchronous exception that is under way to arrive here."""
    for _ in range(1000):
        pass


class Ended(BaseException):
    """Ends code that goes on after KeyboardInterrupt: see EndAgain() in evaluator_work.cc."""


def arm_ended(again):
    Ended.__init__ = again
    return Ended


def disarm_ended():
    del Ended.__init__


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


at_end = []  # of the evaluation under way: functions that may have something to say on stderr


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
        text = globals()["talk_" + chosen.get("op", "eval")](source.decode("utf-8"), chosen)
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
