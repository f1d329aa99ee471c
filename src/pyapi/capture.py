# ruff: noqa: F821  describe.py comes before this file; Refused is session.py's, which comes after it.
# Where the output of evaluated code goes: to whoever asked, and not to the job's stdout. That holds for what
# Python prints, for os.write(), and for processes that the code starts. While code is evaluated some
# functions of the job's modules do something else on the evaluating thread; for all other threads they are
# what they were. Runs in the target. Python 3.6 syntax, built-in modules only.
import _thread
import posix
import sys


class Stream(object):
    """A Capture that sends what it gets at once, and keeps nothing."""

    def __init__(self, limit, is_error):
        self.left = limit
        self.is_error = is_error
        self.cut = False

    def write(self, text):
        if len(text) > self.left:
            self.cut = True
            text = text[: self.left]
        if text:
            self.left -= len(text)
            emit(self.is_error, text.encode("utf-8", "backslashreplace"))

    def text(self):
        return ""


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
    """Stands in for sys.stdout while code is evaluated: the evaluating thread's output is
    captured, that of all others goes where it went before."""

    def __init__(self, original):
        self._original = original
        self._capture = self._owner = self._pid = None
        self._fd = -1  # for processes; −1 for none

    def _begin(self, capture, fd):
        self._capture, self._fd, self._pid = capture, fd, posix.getpid()
        self._owner = _thread.get_ident()

    def _ours(self):
        # A forked child has this object, too, and may give a thread of its own the same number.
        return _thread.get_ident() == self._owner and posix.getpid() == self._pid

    def write(self, text):
        if not self._ours():
            return self._original.write(text)
        self._capture.write(text)
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


def stand_alone(cls, names):
    """Its methods see these names only, and so do not keep all of ours alive."""
    function = type(stand_alone)
    for name, value in list(vars(cls).items()):
        if isinstance(value, property):
            setattr(cls, name, property(function(value.fget.__code__, names, name)))
        elif isinstance(value, function):
            setattr(cls, name, function(value.__code__, names, name))


for each in (Bytes, Router):
    stand_alone(each, {"__builtins__": __builtins__, "_thread": _thread, "posix": posix, "Bytes": Bytes})
del each

# print() uses sys.stdout without owning it (before Python 3.14): a router that a thread of the job may still
# be inside of must not be freed. The last few are kept, and left behind when the probe goes; the next one
# takes them up (left_behind.h), so there are never more.
MOST_ROUTERS = 8
streams = kept_streams or [Router, []]
Router, routers = streams  # (name, router) each


def router_of(name, original):
    for known, router in routers:
        if known == name and (router._original is original or router is original):
            return router
    router = Router(original)
    routers.append((name, router))
    del routers[:-MOST_ROUTERS]
    return router


# ── functions that do something else meanwhile ───────────────────────────────────────────────


class Instead(object):
    """Replaces functions of modules for one thread."""

    def __init__(self):
        self.owner = _thread.get_ident()
        self.pid = posix.getpid()
        self.replaced = []  # (module, name, ours, original)

    def put(self, modules, name, function):
        """function(original, *arguments) is called on this thread, the original on others."""
        homes = [sys.modules[module] for module in modules if module in sys.modules]
        original = next((vars(home)[name] for home in homes if name in vars(home)), None)
        if original is None:
            return
        state = self

        def wrapper(*args, **kwargs):
            # A forked child is nobody's guest any more.
            if _thread.get_ident() != state.owner or posix.getpid() != state.pid:
                return original(*args, **kwargs)
            return function(original, *args, **kwargs)

        for home in homes:
            if vars(home).get(name) is original:
                setattr(home, name, wrapper)
                self.replaced.append((home, name, wrapper, original))

    def undo(self):
        self.owner = None  # a reference that somebody kept goes on working
        for home, name, wrapper, original in self.replaced:
            if vars(home).get(name) is wrapper:
                setattr(home, name, original)
            # Imported meanwhile, with ours in it.
            late = vars(sys.modules.get("subprocess", home))
            if name == "fork_exec" and late.get("_fork_exec") is wrapper:
                late["_fork_exec"] = original


class ImportsOfSubprocess(object):
    """Stands first in sys.meta_path and finds nothing: a subprocess module that evaluated code is the first
    to import finds its C half as the others do."""

    def __init__(self, instead, fork_exec):
        self.instead = instead
        self.fork_exec = fork_exec

    def find_spec(self, name, path=None, target=None):
        if name == "subprocess" and _thread.get_ident() == self.instead.owner:
            __import__("_posixsubprocess")
            self.instead.put(("_posixsubprocess",), "fork_exec", self.fork_exec)


def capture_processes(instead, streams, fds):
    """What this thread starts writes into our pipes, unless it was given something else."""
    out, err = fds

    def with_copies(start):
        """start(out, err) with copies of ours, which the probe closes in a forked child."""
        copies = [posix.dup(out), posix.dup(err)]
        try:
            return start(*copies)
        finally:
            for copy in copies:
                posix.close(copy)

    def fork_exec(original, *args):
        def start(out_copy, err_copy):
            chosen = list(args)
            for at, own in ((9, out_copy), (11, err_copy)):  # c2pwrite and errwrite
                places = {-1: own, 1: out_copy, 2: err_copy, out: out_copy, err: err_copy}
                chosen[at] = places.get(chosen[at], chosen[at])
            return original(*chosen)

        return with_copies(start)

    def system(original, command):
        place = "exec 1>/proc/%d/fd/%d 2>/proc/%d/fd/%d\n" % (instead.pid, out, instead.pid, err)
        return original(place.encode() + command if isinstance(command, bytes) else place + command)

    def spawn(original, path, argv, env, **options):
        def start(out_copy, err_copy):
            actions = [(posix.POSIX_SPAWN_DUP2, out_copy, 1), (posix.POSIX_SPAWN_DUP2, err_copy, 2)]
            options["file_actions"] = actions + list(options.get("file_actions") or ())
            return original(path, argv, env, **options)

        return with_copies(start)

    def fork(original):
        def start(*copies):
            pid = original()
            for number, copy in enumerate(copies, 1):
                if pid == 0:
                    posix.dup2(copy, number)
            return pid

        return with_copies(start)

    def write(original, fd, data):
        if fd not in (1, 2):
            return original(fd, data)
        streams[fd - 1].write(bytes(data).decode("utf-8", "replace"))
        return len(data)

    both = ("posix", "os")
    instead.put(both, "write", write)
    if out < 0:
        return None
    instead.put(both, "system", system)
    instead.put(both, "posix_spawn", spawn)
    instead.put(both, "posix_spawnp", spawn)
    instead.put(both, "fork", fork)
    if "subprocess" in sys.modules:
        instead.put(("_posixsubprocess",), "fork_exec", fork_exec)
        instead.put(("subprocess",), "_fork_exec", fork_exec)
        return None
    finder = ImportsOfSubprocess(instead, fork_exec)
    sys.meta_path.insert(0, finder)
    return finder


# ── what would end the job ───────────────────────────────────────────────────────────────────

ENDS = {"os": "_exit abort kill killpg", "posix": "_exit abort kill killpg", "signal": "raise_signal"}


def guard_the_end(instead):
    def refuse(what):
        raise Refused(
            "%s would end the job, and was not done. `probing repl` asks when it is typed there; "
            "`probing eval --yes` does it" % what
        )

    def kill(original, pid, number):
        if number != 0 and pid in (0, -1, instead.pid, -posix.getpgrp()):
            refuse("a signal to the job's own process")
        return original(pid, number)

    def killpg(original, group, number):
        if number != 0 and group in (0, posix.getpgrp()):
            refuse("a signal to the job's own group of processes")
        return original(group, number)

    both = ("posix", "os")
    instead.put(both, "_exit", lambda original, *code: refuse("os._exit()"))
    instead.put(both, "abort", lambda original: refuse("os.abort()"))
    instead.put(both, "kill", kill)
    instead.put(both, "killpg", killpg)
    instead.put(("_signal", "signal"), "raise_signal", lambda original, n: refuse("signal.raise_signal()"))


def may_end(tree):
    """The first thing in it that ends a process without asking Python; "" when there is none."""
    todo = [tree]
    while todo:
        node = todo.pop()
        kind = type(node).__name__
        if kind == "Attribute" and type(node.value).__name__ == "Name":
            if node.attr in ENDS.get(node.value.id, "").split():
                return "%s.%s" % (node.value.id, node.attr)
        elif kind == "ImportFrom" and node.module in ENDS:
            for alias in node.names:
                if alias.name in ENDS[node.module].split():
                    return "%s.%s" % (node.module, alias.name)
        for field in node._fields:
            child = getattr(node, field, None)
            todo += [
                each for each in (child if isinstance(child, list) else [child]) if hasattr(each, "_fields")
            ]
    return ""


# ── around one evaluation ────────────────────────────────────────────────────────────────────

undos = []  # functions


def install(streams, chosen):
    fds = [int(chosen.get(name, "-1")) for name in ("out_fd", "err_fd")]
    mine = []
    for name, capture, fd in zip(("stdout", "stderr"), streams, fds):
        router = router_of(name, getattr(sys, name))
        router._begin(capture, fd)
        mine.append((name, router))
        setattr(sys, name, router)

    def put_back():
        for name, router in mine:
            router._owner = router._capture = None  # a reference that somebody kept goes on working
            if getattr(sys, name) is router:
                setattr(sys, name, router._original)

    undos.append(put_back)
    instead = Instead()
    undos.append(instead.undo)
    finder = capture_processes(instead, streams, fds)
    if finder is not None:
        undos.append(lambda: finder in sys.meta_path and sys.meta_path.remove(finder))
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
