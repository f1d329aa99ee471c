# ruff: noqa: F821  describe.py comes before this file; session.py and others after it.
# Runs in the target, on a thread of the probe. Python 3.6 syntax; imports only built-in modules,
# so that the job's sys.modules stays as it is. Everything here is private to the probe: the
# namespace is a dict that no module of the job refers to.
import _ast
import _thread
import sys

ONLY_AST = 0x400  # ast.PyCF_ONLY_AST, without importing ast
FILE_NAME = "<probing>"


class Router(object):
    """Stands in for sys.stdout while code is evaluated: the evaluating thread's output is
    captured, that of all others goes where it went before."""

    def __init__(self, original):
        self._original = original
        self._capture = self._owner = None

    def write(self, text):
        if _thread.get_ident() != self._owner:
            return self._original.write(text)
        self._capture.write(text)
        return len(text)

    def flush(self):
        if _thread.get_ident() != self._owner and self._original is not None:
            self._original.flush()

    def __getattr__(self, name):
        return getattr(self._original, name)


def stand_alone(cls, names):
    """Its methods see these names only, and so do not keep all of ours alive."""
    function = type(stand_alone)
    for name, value in list(vars(cls).items()):
        if isinstance(value, function):
            setattr(cls, name, function(value.__code__, names, name))


stand_alone(Router, {"__builtins__": __builtins__, "_thread": _thread})

# print() uses sys.stdout without owning it (before Python 3.14): a router that a thread of the job may still
# be inside of must not be freed. The last few are kept, and left behind when the probe goes; the next one
# takes them up (left_behind.h), so there are never more.
MOST_ROUTERS = 8
streams = kept_streams or [Router, []]
Router, routers = streams  # (name, router) each
installed = []  # those in place now


def router_of(name, original):
    for known, router in routers:
        if known == name and (router._original is original or router is original):
            return router
    router = Router(original)
    routers.append((name, router))
    del routers[:-MOST_ROUTERS]
    return router


def install(capture_out, capture_err):
    for name, capture in (("stdout", capture_out), ("stderr", capture_err)):
        router = router_of(name, getattr(sys, name))
        router._capture, router._owner = capture, _thread.get_ident()
        installed.append((name, router))
        setattr(sys, name, router)


def restore():
    """Called by the probe after every evaluation, however it ended."""
    for name, router in installed:
        if getattr(sys, name) is router:
            setattr(sys, name, router._original)
        router._owner = router._capture = None  # a reference that somebody kept goes on working
    del installed[:]
    threading = sys.modules.get("threading")
    active = getattr(threading, "_active", None)
    if active is not None:
        # threading.current_thread() in evaluated code leaves a dummy behind for our thread.
        active.pop(_thread.get_ident(), None)


def settle():
    """Executes enough for an asynchronous exception that is under way to arrive here."""
    for _ in range(1000):
        pass


def run(source, namespace):
    tree = compile(source, FILE_NAME, "exec", ONLY_AST)
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


def evaluate(source, limit, options):
    """Returns (raised, stdout, stderr, value, traceback, cut) as bytes; value and traceback are
    None when there is none. What is to be done with the source is options["op"]."""
    out, err, trace = Capture(limit), Capture(limit), Capture(limit)
    value = None
    raised = ""
    install(out, err)
    try:
        chosen = parse_options(options)
        text = globals()["talk_" + chosen.get("op", "eval")](source.decode("utf-8"), chosen)
        if text is not None:
            value = Capture(limit)
            value.write(text)
        del text
    except BaseException:
        kind, error, _ = sys.exc_info()
        raised = kind.__name__
        if kind is Refused:
            trace.write("%s\n" % error)
        elif kind is not Incomplete:
            describe(error, trace.write, set())
        del kind, error

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
