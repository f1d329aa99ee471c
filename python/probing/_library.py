"""Finds libprobing.so, loads it, asks it. Light: no ctypes, only the module beneath it."""

import os
import sys

RUNTIME_PARENTS = ("/tmp", "/dev/shm", "/var/tmp")  # where probes have their sockets

_handle = None  # what dlopen returned, when it was us who loaded the probe


def find():
    """Path of the library: PROBING_LIBRARY, the one that the .pth file names, the one in this
    package, the one of a source tree."""
    hook = sys.modules.get("_probing_start")
    chosen = os.environ.get("PROBING_LIBRARY") or getattr(hook, "library", None)
    if chosen:
        return chosen
    package = os.path.dirname(os.path.abspath(__file__))
    beside = os.path.join(package, "libprobing.so")
    built = os.path.join(package, "..", "..", "build", "release", "bin", "libprobing.so")
    return beside if os.path.exists(beside) or not os.path.exists(built) else os.path.normpath(built)


def _call(name):
    """Calls an `int name(void)` of the library; see include/probing/probing.h."""
    import _ctypes

    return _ctypes.call_function(_ctypes.dlsym(_handle, name), ())


def is_active():
    if _handle is not None:
        return bool(_call("probing_active"))
    # Injected or preloaded: then the probe has a socket named after this process.
    name = "probing-%d/%d.sock" % (os.getuid(), os.getpid())
    return any(os.path.exists(os.path.join(parent, name)) for parent in RUNTIME_PARENTS)


def load(path=None):
    global _handle
    if os.environ.get("PROBING_DISABLE") == "1":
        return False
    if is_active():
        return True
    if _handle is None:
        import _ctypes

        _handle = _ctypes.dlopen(path or find(), os.RTLD_NOW | os.RTLD_LOCAL)
    return bool(_call("probing_start"))
