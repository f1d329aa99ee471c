"""What probing.pth imports at interpreter start when PROBING (or PROBE) is set.

Decides whether this process is meant, and loads the probe if so. Never raises, never prints:
it runs inside every Python of the user, before their program does. A module of its own, because
importing the package `probing` means loading the probe.

    1, on, true     this process, not the processes it starts
    nested          children too
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


def has_variable(pid, name, value):
    with open("/proc/%d/environ" % pid, "rb") as file:
        wanted = os.fsencode("%s=%s" % (name, value))
        return wanted in file.read().split(b"\0")


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
        if not is_meant(setting[1], command_line(), lambda: is_child_of_a_probed_process(*setting)):
            return False
        import probing  # which loads the probe

        return probing.is_active()
    except Exception:
        return False
