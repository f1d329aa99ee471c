"""Finds libprobing.so, loads it, asks it. Light: no ctypes, only the module beneath it."""

import os
import sys

RUNTIME_PARENTS = ("/tmp", "/dev/shm", "/var/tmp")  # where probes have their sockets
SOCKET_SECONDS = 2
# Where it is from here; what is in a wheel's data folder goes below the prefix, see tools/stage.py.
PLACES = (
    "../../../probing",  # PREFIX/lib/python3.x/site-packages/probing
    "../../../../lib/probing",  # the same where there is a lib64
    "../lib/probing",  # pip install --target
    "../..",  # make install: PREFIX/lib/probing/python/probing
    "../../build/release/bin",  # a source tree
)

_handle = None  # what dlopen returned, when it was us who loaded the probe


def find():
    """Path of the library: PROBING_LIBRARY, the one that the .pth file names, the one that came with
    this package."""
    hook = sys.modules.get("_probing_start")
    chosen = os.environ.get("PROBING_LIBRARY") or getattr(hook, "library", None)
    if chosen:
        return chosen
    package = os.path.dirname(os.path.abspath(__file__))
    paths = [os.path.normpath(os.path.join(package, place, "libprobing.so")) for place in PLACES]
    return next((path for path in paths if os.path.exists(path)), paths[0])


def socket_path(pid=None):
    """The control socket of the probe in this process, or in another one of ours; None without."""
    name = "probing-%d/%d.sock" % (os.getuid(), pid or os.getpid())
    for parent in RUNTIME_PARENTS:
        path = os.path.join(parent, name)
        if os.path.exists(path):
            return path
    return None


def wait_for_socket():
    """The same for this process. A probe that was just loaded gets a moment to make it."""
    import time

    deadline = time.monotonic() + SOCKET_SECONDS
    while True:
        path = socket_path()
        loaded = _handle is not None and _call("probing_active")
        if path is not None or not loaded or time.monotonic() > deadline:
            return path
        time.sleep(0.001)


def _call(name):
    """Calls an `int name(void)` of the library; see include/probing/probing.h."""
    import _ctypes

    return _ctypes.call_function(_ctypes.dlsym(_handle, name), ())


def in_notebook():
    """Whether this process is the kernel of a notebook."""
    return "ipykernel" in sys.modules


def loaded_here():
    """Whether it was this module that loaded the probe."""
    return _handle is not None


def is_active():
    if _handle is not None and _call("probing_active"):
        return True
    # Injected or preloaded: then the probe has a socket named after this process.
    return socket_path() is not None


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


def native():
    """The probe's functions for Python as a dict (src/hooks/native.h); None when there is no probe.

    A probe that we have not loaded ourselves tells on its socket where to call it.
    """
    import _ctypes

    if _handle is not None and _call("probing_active"):
        done = _call("probing_python")
    else:
        path = socket_path()
        if path is None:
            return None
        from . import _control

        hello = _control.ask(path, "hello")
        if int(hello.get("pid", 0)) != os.getpid() or "python_entry" not in hello:
            return None
        done = _ctypes.call_function(int(hello["python_entry"]), ())
    return sys.modules.pop("_probing_native", None) if done else None
