"""What probing.pth imports at interpreter start when PROBING (or PROBE) is set.

Decides whether this process is meant, and loads the probe if so. Never raises, never prints:
it runs inside every Python of the user, before their program does. A module of its own, because
importing the package `probing` means loading the probe.

    1, on, true     this program and the ranks it starts (torchrun, accelerate, deepspeed, mpirun, srun,
                    torch.multiprocessing.spawn, Ray's workers that use torch, processes that it starts by
                    fork or multiprocessing.Process and that make a process group);
                    data-loader workers and other children stay free
    nested          all children too
    regex:PAT       processes whose command line matches
    train.py        processes that run this script (by name or path)
    0, off, empty   nothing
"""

import os
import sys

VARIABLES = ("PROBING", "PROBE")
OFF = ("", "0", "off", "false", "no")
ON = ("1", "on", "true", "yes")
RUNTIME_PARENTS = ("/tmp", "/dev/shm", "/var/tmp")
MAX_ANCESTORS = 64
# What launchers tell a rank by; src/process/job_identity.cc reads the same names. The last one is all that
# `accelerate launch` tells the only process of a job.
RANK_VARIABLES = (
    "RANK",
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "SLURM_PROCID",
    "JOB_COMPLETION_INDEX",
    "ACCELERATE_MIXED_PRECISION",
)

library = None  # what the .pth file names, for the package's loader


def command_line():
    """argv as the process was started; .pth files are read before sys.argv exists."""
    arguments = getattr(sys, "orig_argv", None)
    if arguments:
        return list(arguments)
    with open("/proc/self/cmdline", "rb") as file:
        return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]


def script_of(arguments):
    """The script a Python command line runs; None for -c, -m and interactive ones."""
    words = iter(arguments[1:])
    for word in words:
        if word in ("-c", "-m", "-"):
            return None
        if word in ("-W", "-X", "--check-hash-based-pycs"):
            next(words, None)  # takes the next word as its value
        elif not word.startswith("-"):
            return word
    return None


def parent_of(pid):
    with open("/proc/%d/stat" % pid, "rb") as file:
        return int(file.read().rsplit(b")", 1)[1].split()[1])


def environment_of(pid):
    """The variables this process was started with."""
    with open("/proc/%d/environ" % pid, "rb") as file:
        entries = [os.fsdecode(entry).partition("=") for entry in file.read().split(b"\0")]
    return {name: value for name, _, value in entries}


def has_variable(pid, name, value):
    return environment_of(pid).get(name) == value


def is_python(pid):
    return os.path.basename(os.readlink("/proc/%d/exe" % pid)).startswith("python")


def place_of(environment):
    """What launchers said about the rank of a process with these variables."""
    return {name: environment[name] for name in RANK_VARIABLES if environment.get(name)}


def is_new_rank(arguments, environment):
    """True when a launcher gave this process a rank: its parent was started with another one, or with none.
    A shell or numactl between the launcher and us has the variables already, so that programs other than
    Python are passed over. multiprocessing hands its own environment on: its children are helpers."""
    place = place_of(environment)
    if not place or any("multiprocessing" in word for word in arguments[1:]):
        return False
    pid = os.getppid()
    for _ in range(MAX_ANCESTORS):
        if pid <= 1:
            return True
        try:
            if place_of(environment_of(pid)) != place:
                return True
            if is_python(pid):
                return False
            pid = parent_of(pid)
        except (OSError, ValueError, IndexError):
            return False  # gone, or not ours to look at
    return False


def has_probe(pid):
    uid = os.getuid()
    return any(os.path.exists("%s/probing-%d/%d.sock" % (parent, uid, pid)) for parent in RUNTIME_PARENTS)


def is_child_of_a_probed_process(name, value):
    """True when an ancestor was started with the same variable and has a live probe: the variable
    was meant for that one, and we only inherited it."""
    pid = os.getppid()
    for _ in range(MAX_ANCESTORS):
        if pid <= 1:
            return False
        try:
            if has_probe(pid) and has_variable(pid, name, value):
                return True
            pid = parent_of(pid)
        except (OSError, ValueError, IndexError):
            return False  # gone, or not ours to look at
    return False


def same_script(wanted, script):
    """By name, or by path when the value has one."""
    if os.path.basename(wanted) == wanted:
        return os.path.basename(script) == wanted
    return os.path.abspath(script) == os.path.abspath(wanted)


def is_meant(value, arguments, inherited):
    """Whether a process with this command line is meant by PROBING=value. `inherited` is a function,
    asked only when it matters: whether the variable was meant for an ancestor."""
    word = value.strip()
    if word.lower() in OFF:
        return False
    if word.lower() in ON:
        return not inherited()
    if word.lower() == "nested":
        return True
    if word.startswith("regex:"):
        import re

        return re.search(word[len("regex:") :], " ".join(arguments)) is not None
    script = script_of(arguments)
    return script is not None and same_script(word, script)


def wanted(environment):
    """(name, value) of the variable that is set, PROBING before PROBE; None when there is none."""
    for name in VARIABLES:
        if environment.get(name):
            return name, environment[name]
    return None


def load_probe():
    """Never raises. Returns whether the probe is there."""
    try:
        import probing

        if not probing.is_active():  # imported before a fork: the parent's probe is not here
            probing.load()
        return probing.is_active()
    except Exception:
        return False


GROUPS = "torch.distributed.distributed_c10d"
MAKES_GROUP = "_new_process_group_helper"  # what init_process_group() calls, by whatever name that is known


def load_when_a_group_is_made():
    """A process that a program has started itself is a rank once it makes a process group: torch's function
    that does so is replaced until it is called for the first time. In every forked child of a program."""
    module = sys.modules.get(GROUPS)
    if module is None:
        if not any(isinstance(finder, GroupsImport) for finder in sys.meta_path):
            sys.meta_path.insert(0, GroupsImport())
        return
    original = getattr(module, MAKES_GROUP, None)
    if original is None or getattr(original, "__module__", "") == __name__:
        return

    def new_process_group(*args, **kwargs):
        if getattr(module, MAKES_GROUP, None) is new_process_group:
            setattr(module, MAKES_GROUP, original)
        load_probe()
        return original(*args, **kwargs)

    setattr(module, MAKES_GROUP, new_process_group)


class GroupsImport(object):
    """The same for a process that has not imported torch yet. On sys.meta_path until it does."""

    def find_spec(self, name, path=None, target=None):
        if name != GROUPS:
            return None
        try:
            sys.meta_path.remove(self)
            from importlib import util

            spec = util.find_spec(name)
            loader, run = spec.loader, spec.loader.exec_module

            def exec_module(module):
                del loader.exec_module  # the class's own is back
                run(module)
                load_when_a_group_is_made()

            loader.exec_module = exec_module
            return spec
        except Exception:  # another thread has come here, too, or its loader takes no attributes
            return None


def follow_forks():
    """A child of fork() has no probe, and may become a rank."""
    if hasattr(os, "register_at_fork"):  # since Python 3.7
        os.register_at_fork(after_in_child=in_forked_child)


def in_forked_child():
    try:
        load_when_a_group_is_made()
    except Exception:
        pass


class SpawnedRank(object):
    """Loads the probe in a process of torch.multiprocessing.spawn. What a process of multiprocessing is to do
    is known when it begins with that, which is when functions registered for after a fork are called; since
    Python 3.9 a spawned one calls an empty function of its own in their place."""

    def watch(self):
        from multiprocessing import context, util

        util.register_after_fork(self, SpawnedRank.on_start)
        kind = context.SpawnProcess
        empty = kind.__dict__.get("_after_fork")
        if empty is None:
            return

        def after_fork():
            kind._after_fork = empty
            self.on_start()

        kind._after_fork = staticmethod(after_fork)

    def on_start(self):
        try:
            from multiprocessing import process

            target = getattr(process.current_process(), "_target", None)
            if getattr(target, "__module__", "") == "torch.multiprocessing.spawn":
                load_probe()
            else:
                load_when_a_group_is_made()
        except Exception:
            pass


class TorchImport(object):
    """Loads the probe when torch is imported: one of Ray's workers does not know yet what it will do when its
    Python starts. On sys.meta_path until then."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        # The list is being walked through: what is answered here ends that.
        try:
            sys.meta_path.remove(self)
            load_probe()
            from importlib import util

            return util.find_spec(name)
        except Exception:  # another thread has come here, too, or there is no torch
            return None


def is_ray(arguments):
    """A process of Ray's own."""
    script = script_of(arguments) or ""
    return any("/ray/%s/" % part in script for part in ("_private", "autoscaler", "dashboard"))


spawned_rank = SpawnedRank()  # kept: multiprocessing holds it weakly
is_watching = False


def watch_for_rank(arguments):
    """For a process that only inherited PROBING=1, and may yet turn out to be a rank."""
    global is_watching
    if is_watching:
        return  # in a virtual environment .pth files are read twice
    is_watching = True
    if any("multiprocessing" in word for word in arguments[1:]):
        spawned_rank.watch()
    elif is_ray(arguments) and os.path.basename(script_of(arguments)) == "default_worker.py":
        sys.meta_path.insert(0, TorchImport())


def wait_for_client():
    """PROBE_BG=0: returns when the first client has come, or at once where none can come. ^C ends the program
    without a word, as it does before its first line."""
    from probing import _control, _library

    try:
        path = _library.wait_for_socket()
        if path is not None:
            _control.ask(path, "wait", timeout=None)
    except KeyboardInterrupt:
        import signal

        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except (OSError, ValueError):
        pass  # the probe was ejected
    finally:
        os.environ["PROBE_BG"] = "1"  # what this program starts does not wait again


def start(path=None):
    """Loads the probe when this process is meant. Returns whether it did."""
    global library
    library = path
    try:
        if os.environ.get("PROBING_DISABLE") == "1":
            return False
        setting = wanted(os.environ)
        if setting is None:
            return False
        arguments = command_line()

        def inherited():
            return is_child_of_a_probed_process(*setting) and not is_new_rank(arguments, os.environ)

        is_on = setting[1].strip().lower() in ON
        if (is_on and is_ray(arguments)) or not is_meant(setting[1], arguments, inherited):
            if is_on:
                watch_for_rank(arguments)
            return False
        if not load_probe():
            return False
        if is_on:
            follow_forks()
        if os.environ.get("PROBE_BG") == "0":
            wait_for_client()
        return True
    except Exception:
        return False
