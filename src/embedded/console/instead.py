# While code is evaluated some functions of the job's modules do something else on the threads of that code:
# what is written past Python, and what processes write that it starts, is its output, too. For all other
# threads the functions are what they were. Runs in the target. Python 3.6 syntax, built-in modules only.
import _thread
import posix
import sys

from ..core.alone import alone, undos

# Imported meanwhile, these have ours in them: name in the built-in module → where else.
ALSO_IN = {
    "fork_exec": ("subprocess", "_fork_exec"),
    "start_new_thread": ("threading", "_start_new_thread"),
    "start_joinable_thread": ("threading", "_start_joinable_thread"),  # 3.13
}


def wrapped(original, way):
    """Calls way[2](original, …) on the threads way[0] of the process way[1], and the original elsewhere: a
    forked child is nobody's guest any more."""

    def wrapper(*args, **kwargs):
        if _thread.get_ident() not in way[0] or way[1] != posix.getpid():
            return original(*args, **kwargs)
        return way[2](original, *args, **kwargs)

    wrapper.__name__ = getattr(original, "__name__", "wrapper")
    wrapper = alone(wrapper)
    wrapper.__module__ = getattr(original, "__module__", None)  # so that it can be pickled
    return wrapper


class Instead(object):
    """Replaces functions of modules for some threads."""

    def __init__(self, threads):
        self.threads = threads
        self.pid = posix.getpid()
        self.replaced = []  # (module, name, ours, original)
        self.put_in = []  # (dict of an object, name, ours, what was there)
        self.ways = []

    def put(self, modules, name, function):
        """function(original, *arguments) is called on these threads, the original on others."""
        homes = [sys.modules[module] for module in modules if module in sys.modules]
        original = next((vars(home)[name] for home in homes if name in vars(home)), None)
        if original is None:
            return
        self.ways.append([self.threads, self.pid, function])
        wrapper = wrapped(original, self.ways[-1])
        other, other_name = ALSO_IN.get(name, (None, None))
        places = [(home, name) for home in homes] + [(sys.modules.get(other), other_name)]
        for home, place in places:
            if home is not None and vars(home).get(place) is original:
                self.replaced.append((home, place, wrapper, original))
                setattr(home, place, wrapper)

    def put_into(self, thing, name, function):
        """The same for a method of one object. False when it has no dict, or looks elsewhere first."""
        names = getattr(thing, "__dict__", None)
        original = getattr(thing, name, None)
        if type(names) is not dict or original is None:
            return False
        if any(known is names and name == place for known, place, _, _ in self.put_in):
            return True  # stdout and stderr are the same
        self.ways.append([self.threads, self.pid, function])
        wrapper = wrapped(original, self.ways[-1])
        self.put_in.append((names, name, wrapper, [names[name]] if name in names else []))
        names[name] = wrapper
        if getattr(thing, name, None) is wrapper:
            return True
        self.take_out(*self.put_in.pop())
        return False

    def take_out(self, names, name, wrapper, before):
        if names.get(name) is not wrapper:
            return
        if before:
            names[name] = before[0]
        else:
            del names[name]

    def undo(self):
        for way in self.ways:
            way[:] = [(), None, None]  # a reference that somebody kept goes on working
        while self.put_in:
            self.take_out(*self.put_in.pop())
        for home, name, wrapper, original in self.replaced:
            other, other_name = ALSO_IN.get(name, (None, None))
            for module, place in ((home, name), (sys.modules.get(other), other_name)):
                if module is not None and vars(module).get(place) is wrapper:
                    setattr(module, place, original)


def capture_threads(instead):
    """Threads that the code starts belong to it, for as long as it is evaluated."""
    threads = instead.threads

    def start(original, function, *args, **kwargs):
        def run(*args, **kwargs):
            threads.add(_thread.get_ident())
            try:
                return function(*args, **kwargs)
            finally:
                threads.discard(_thread.get_ident())  # the job may get the number next

        return original(alone(run), *args, **kwargs)

    instead.put(("_thread",), "start_new_thread", start)
    instead.put(("_thread",), "start_joinable_thread", start)


def imports_of_subprocess(instead, fork_exec):
    """Stands first in sys.meta_path and finds nothing: a subprocess module that evaluated code is the first
    to import finds its C half as the others do. No class of ours: a thread of the job may have it in hand."""
    threads = instead.threads

    def find_spec(name, path=None, target=None):
        if name == "subprocess" and _thread.get_ident() in threads:
            __import__("_posixsubprocess")
            instead.put(("_posixsubprocess",), "fork_exec", fork_exec)

    return type(sys.implementation)(find_spec=alone(find_spec))


def capture_processes(instead, streams, fds):
    """What these threads start writes into our pipes, unless it was given something else."""
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
        return
    instead.put(both, "system", system)
    instead.put(both, "posix_spawn", spawn)
    instead.put(both, "posix_spawnp", spawn)
    instead.put(both, "fork", fork)
    if "subprocess" in sys.modules:
        instead.put(("_posixsubprocess",), "fork_exec", fork_exec)
        return
    finder = imports_of_subprocess(instead, fork_exec)
    undos.append(lambda: finder in sys.meta_path and sys.meta_path.remove(finder))
    sys.meta_path.insert(0, finder)
