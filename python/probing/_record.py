"""What a program says about itself: metrics, spans, events, steps."""

import itertools
import sys
import time

from . import _native

try:
    from contextvars import ContextVar
except ImportError:  # Python 3.6
    import threading

    class ContextVar(threading.local):
        """Good enough without asyncio: one value per thread."""

        def __init__(self, name, default=None):
            self.value = default

        def get(self):
            return self.value

        def set(self, value):
            self.value = value


COROUTINE = 0x80  # of co_flags: CO_COROUTINE

_metrics = _native.Table("python.metrics")
_spans = _native.Table("python.spans")
_rows = itertools.count(1)
_span_ids = itertools.count(1)
_current_span = ContextVar("probing_span", default=None)
_step = None
_step_span = None  # of a program without torch


def time_ns():
    """time.time_ns(), which Python 3.6 has not."""
    return int(time.time() * 1e9)


if hasattr(time, "time_ns"):
    time_ns = time.time_ns


def step(number=None):
    """Says which training step begins: what is logged from now on belongs to it. Without a number
    it is the next one. Returns the step. In a program without torch (JAX) the step that ends here is a row
    of python.spans called "step"; with torch it is one of python.torch_steps."""
    global _step, _step_span
    if _step_span is not None:
        _step_span.end()
        _step_span = None
    _step = int(number) if number is not None else (0 if _step is None else _step + 1)
    if "torch" not in sys.modules:
        _step_span = Span("step", {}).begin()
    functions = _native.find_or_load()
    if functions is not None and "step" in functions:
        functions["step"](_step)  # the tracer of torch counts by it
    return _step


def log(**metrics):
    """Logs values of a training step: ``probing.log(epoch=1, loss=0.3)``. They are one row of the
    table training_logs, a column for each name.

    ``epoch`` and ``step`` say when; a step that is not given is that of probing.step(). Values are
    numbers (also of numpy and torch) or texts; None is left out. Returns whether all were stored.
    """
    epoch, now = metrics.pop("epoch", None), metrics.pop("step", _step)
    row, stamp = next(_rows), time_ns()
    stored = True
    for name, value in metrics.items():
        if value is None:
            continue
        if isinstance(value, str):
            values = (stamp, "log", row, epoch, now, name, None, value)
        else:
            values = (stamp, "log", row, epoch, now, name, value)
        try:
            stored = (_metrics.append(*values) or _metrics.again(*values)) and stored
        except (TypeError, ValueError, OverflowError) as error:
            raise type(error)("%s: %s" % (name, error)) from None
    return stored


def _attributes(attributes):
    if not attributes:
        return None
    import json

    return json.dumps(attributes, default=str, ensure_ascii=False)


def event(name, capture=False, **attributes):
    """Notes that something happened: a row of python.spans without a duration. With ``capture`` also one of
    python.stalls: what this thread did just before and after it, as seen from outside."""
    if capture:
        attributes["capture"] = True
    values = (None, _native.tid(), next(_span_ids), _current_span.get(), name, "event", _step, None)
    values += (_attributes(attributes),)
    return _spans.append(*values) or _spans.again(*values)


class Span(object):
    """See span()."""

    __slots__ = ("attributes", "name", "number", "parent", "started", "started_ns")

    def __init__(self, name, attributes):
        self.name = name
        self.attributes = attributes

    def begin(self):
        """Without being the parent of those that begin meanwhile."""
        self.number = next(_span_ids)
        self.parent = _current_span.get()
        self.started_ns = time_ns()
        self.started = time.perf_counter()
        return self

    def __enter__(self):
        self.begin()
        _current_span.set(self.number)
        return self

    def __exit__(self, *error):
        _current_span.set(self.parent)
        return self.end()

    def end(self):
        duration_ms = (time.perf_counter() - self.started) * 1e3
        values = (
            self.started_ns,
            _native.tid(),
            self.number,
            self.parent,
            self.name,
            "span",
            _step,
            duration_ms,
        )
        values += (_attributes(self.attributes),)
        _spans.append(*values) or _spans.again(*values)
        return False

    def __call__(self, function):
        """As a decorator: every call is a span of its own."""
        name, attributes = self.name, self.attributes
        if getattr(getattr(function, "__code__", None), "co_flags", 0) & COROUTINE:

            async def wrapper(*args, **kwargs):
                with Span(name, attributes):
                    return await function(*args, **kwargs)

        else:

            def wrapper(*args, **kwargs):
                with Span(name, attributes):
                    return function(*args, **kwargs)

        for attribute in ("__module__", "__name__", "__qualname__", "__doc__", "__dict__"):
            if attribute == "__dict__":
                wrapper.__dict__.update(getattr(function, "__dict__", {}))
            elif hasattr(function, attribute):
                setattr(wrapper, attribute, getattr(function, attribute))
        wrapper.__wrapped__ = function
        return wrapper


def span(name, limit=None, **attributes):
    """Measures a part of the program: a row of python.spans when it ends.

    ``with probing.span("load"): …``, or ``@probing.span("load")`` above a function. Spans inside of
    others know them as their parent. One that takes longer than ``limit`` seconds is a row of python.stalls,
    too, with the line that took the time.
    """
    if limit is not None:
        attributes["limit"] = float(limit)
    return Span(name, attributes)
