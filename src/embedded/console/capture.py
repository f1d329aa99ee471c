# Where the output of evaluated code goes: to the client, and not to the job's stdout. This is about what
# Python prints; instead.py is about what goes past it. sys.stdout stays the object that it is, because code
# of the job may keep it and put it back later (contextlib.redirect_stdout): its methods are replaced. Runs in
# the target. Python 3.6 syntax, built-in modules only.
import _thread
import posix
import sys

from ..core.alone import STAND_ALONE, stand_alone, undos
from ..core.describe import Capture
from ..core.guard import guard_the_end
from ..core.own import lasting, spare
from ..native import kept
from .instead import Instead, capture_processes, capture_threads


class Stream(Capture):
    """Sends what it gets at once, and keeps nothing."""

    def __init__(self, limit, is_error):
        Capture.__init__(self, limit)
        self.is_error = is_error

    def keep(self, text):
        from ..native import emit

        emit(self.is_error, text.encode("utf-8", "backslashreplace"))


class Bytes(object):
    """sys.stdout.buffer, as far as it is written to."""

    def __init__(self, router):
        self._router = router

    def write(self, data):
        self._router.write(bytes(data).decode("utf-8", "replace"))
        return len(data)

    def flush(self):
        pass

    def fileno(self):
        return self._router.fileno()


class Router(object):
    """Stands in for a sys.stdout whose methods cannot be replaced, None for example, while code is evaluated:
    the output of its threads is captured, that of all others goes where it went before."""

    def __init__(self, original):
        self._original = original
        self._capture = self._pid = None
        self._threads = ()
        self._fd = -1  # for processes; −1 for none

    def _begin(self, capture, fd, threads):
        self._capture, self._fd, self._pid = capture, fd, posix.getpid()
        self._threads = threads

    def _end(self):
        self._threads = ()  # a reference that somebody kept goes on working
        self._capture = None

    def _ours(self):
        # A forked child has this object, too, and may give a thread of its own the same number.
        return _thread.get_ident() in self._threads and posix.getpid() == self._pid

    def write(self, text):
        capture = self._capture if self._ours() else None
        if capture is None:
            return self._original.write(text)
        capture.write(text)
        return len(text)

    def flush(self):
        if not self._ours() and self._original is not None:
            self._original.flush()

    def fileno(self):
        return self._fd if self._ours() and self._fd >= 0 else self._original.fileno()

    def isatty(self):
        return not self._ours() and self._original.isatty()

    @property
    def buffer(self):
        return Bytes(self) if self._ours() else self._original.buffer

    def __getattr__(self, name):
        return getattr(self._original, name)


STAND_ALONE["Bytes"] = Bytes
for each in (Bytes, Router):
    stand_alone(each, STAND_ALONE)
del each

# print() uses sys.stdout without owning it (before Python 3.14): a router that a thread of the job may still
# be inside of must not be freed. The last few are kept, and left behind when the probe goes; the next one
# takes them up (left_behind.h), so there are never more.
MOST_ROUTERS = 8
kept_streams = kept.get("streams") if kept is not None else None
spare.extend((Bytes, Router) if kept_streams else ())  # those left behind stand in for these
streams = kept_streams or [Router, []]
Router, routers = streams  # (name, router) each
if kept_streams:
    lasting.extend((Bytes, Router))
left_streams = None  # from the first router on: what has to stay when we have gone


def router_of(name, original):
    global left_streams
    if left_streams is None:
        left_streams = streams
        if not kept_streams:
            lasting.extend((Bytes, Router))
        if kept is not None:
            kept["streams"] = streams
    for known, router in routers:
        if known == name and (router._original is original or router is original):
            return router
    router = Router(original)
    routers.append((name, router))
    del routers[:-MOST_ROUTERS]
    return router


# ── around one evaluation ────────────────────────────────────────────────────────────────────


def capture_stream(instead, stream, capture, fd):
    """The methods of this one object write into `capture` on the threads of the code. False when they cannot
    be replaced."""

    def write(original, text):
        capture.write(text)
        return len(text)

    def write_bytes(original, data):
        capture.write(bytes(data).decode("utf-8", "replace"))
        return len(data)

    def fileno(original):
        return fd if fd >= 0 else original()

    if stream is None or not instead.put_into(stream, "write", write):
        return False
    instead.put_into(stream, "flush", lambda original: None)
    instead.put_into(stream, "isatty", lambda original: False)
    instead.put_into(stream, "fileno", fileno)
    buffer = getattr(stream, "buffer", None)
    if buffer is not None:
        instead.put_into(buffer, "write", write_bytes)
        instead.put_into(buffer, "flush", lambda original: None)
        instead.put_into(buffer, "fileno", fileno)
    return True


def install(streams, chosen):
    """What has to be undone is noted before it is done: an interrupt may come at any line."""
    fds = [int(chosen.get(name, "-1")) for name in ("out_fd", "err_fd")]
    threads = {_thread.get_ident()}
    mine = []

    def put_back():
        for name, router in mine:
            router._end()
            if getattr(sys, name) is router:
                setattr(sys, name, router._original)

    undos.append(put_back)
    instead = Instead(threads)
    undos.append(instead.undo)
    for name, capture, fd in zip(("stdout", "stderr"), streams, fds):
        capture_stream(instead, getattr(sys, "__%s__" % name, None), capture, fd)
        if capture_stream(instead, getattr(sys, name), capture, fd):
            continue
        router = router_of(name, getattr(sys, name))
        mine.append((name, router))
        router._begin(capture, fd, threads)
        setattr(sys, name, router)
    capture_threads(instead)
    capture_processes(instead, streams, fds)
    if chosen.get("confirmed") != "1":
        guard_the_end(instead)


def restore():
    """Called by the probe after every evaluation, however it ended."""
    while undos:
        undos.pop()()
    threading = sys.modules.get("threading")
    active = getattr(threading, "_active", None)
    if active is not None:
        # threading.current_thread() in evaluated code leaves a dummy behind for our thread.
        active.pop(_thread.get_ident(), None)
