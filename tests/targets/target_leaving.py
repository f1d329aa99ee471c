"""A job that can say all that a visitor could have changed in it, and then does all that jobs do.

It answers each file ASK.<n> by ASK.<n>.done: "state" writes its state as JSON; "live" forks, execs, loads
libraries, starts threads and processes; "end" ends it. Python 3.6 syntax.
"""

import _thread
import atexit
import builtins
import code
import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

from report import Report

report = Report("loops", "failed")
libc = ctypes.CDLL(None)
KEYS = 1024  # PTHREAD_KEYS_MAX


def free_keys():
    """Which of the pthread keys are free: the numbers themselves."""
    taken, key = [], ctypes.c_uint()
    while len(taken) <= KEYS and libc.pthread_key_create(ctypes.byref(key), None) == 0:
        taken.append(key.value)
    for number in taken:
        libc.pthread_key_delete(ctypes.c_uint(number))
    return sorted(taken)


def ids(names):
    return {str(name): id(value) for name, value in names.items()}


def of_kernel():
    status = dict(line.rstrip("\n").split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
    names = ("Threads", "SigBlk", "SigIgn", "SigCgt", "Seccomp", "NoNewPrivs", "CoreDumping", "Uid")
    mapped = [
        line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if len(line.split(None, 5)) > 5
    ]
    files = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            files[name] = os.readlink("/proc/self/fd/" + name)
        except OSError:
            pass  # of the listing itself
    # glibc takes its own two signals (32, 33) with the first thread that a process starts, and for good.
    caught = int(status["SigCgt"], 16) & ~(3 << 31)
    return {
        "status": dict({name: status.get(name) for name in names}, SigCgt=caught),
        "maps": dict.fromkeys(set(mapped) - {"[heap]", "[stack]"}, True),
        "files": files,
        "dumpable": libc.prctl(3, 0, 0, 0, 0),
        "keys": free_keys(),
        "umask": os.umask(os.umask(0)),
    }


def of_interpreter():
    monitoring = getattr(sys, "monitoring", None)
    here = {name: id(value) for name, value in vars(sys).items() if not name.startswith("last_")}
    return {
        "sys": here,
        "modules": ids(sys.modules),
        "builtins": ids(vars(builtins)),
        "os": ids(vars(os)),
        "thread": ids(vars(_thread)),
        "threading": ids(vars(threading)),
        "signal": ids(vars(signal)),
        "subprocess": ids(vars(subprocess)),
        "posixsubprocess": ids(vars(sys.modules["_posixsubprocess"])),
        "lists": [
            [id(each) for each in known] for known in (sys.meta_path, sys.path_hooks, sys.path, gc.callbacks)
        ],
        "collector": [gc.isenabled(), gc.get_threshold(), gc.get_debug(), len(gc.garbage)],
        "tracing": [id(sys.gettrace()), id(sys.getprofile()), id(threading._trace_hook)],
        "tools": [monitoring.get_tool(each) for each in range(6)] if monitoring else [],
        "events": [monitoring.get_events(each) for each in range(6) if monitoring.get_tool(each)]
        if monitoring
        else [],
        "switching": [sys.getswitchinterval(), sys.getrecursionlimit(), sys.getdlopenflags()],
        "active": sorted(threading._active),
        "states": sorted(sys._current_frames()),
        "atexit": atexit._ncallbacks() if hasattr(atexit, "_ncallbacks") else 0,
        "filters": [repr(each) for each in warnings.filters],
        "handlers": [repr(signal.getsignal(each)) for each in range(1, 32)],
        "environment": dict(os.environ),
        "streams": [sorted(ids(vars(each))) for each in (sys.stdout, sys.stderr, sys.stdout.buffer)],
        "main": sorted(name for name in globals()),
        "async": [repr(each) for each in (getattr(sys, "get_asyncgen_hooks", int)(),)],
        "interactive": talks_by_itself(),
    }


class Silent(code.InteractiveInterpreter):
    """It prints a traceback itself unless sys.excepthook is somebody's."""

    said = ""

    def write(self, data):
        self.said += data


def talks_by_itself():
    prompt = Silent({})
    prompt.runsource("1/0")
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        vars(sys).pop(name, None)
    return "ZeroDivisionError" in prompt.said


def of_thread(results):
    results.append(sum(range(1000)))


def live():
    for _ in range(5):
        pid = os.fork()
        if pid == 0:
            inner = os.fork()
            if inner == 0:
                os._exit(3)
            os._exit(os.waitpid(inner, 0)[1] >> 8)
        assert os.waitpid(pid, 0)[1] >> 8 == 3
    pid = os.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", "import sys; sys.exit(5)"])
    assert os.waitpid(pid, 0)[1] >> 8 == 5
    assert subprocess.call([sys.executable, "-c", "import ctypes"], preexec_fn=lambda: None) == 0
    assert os.system("exit 4") >> 8 == 4
    for name in ("libresolv.so.2", "libnsl.so.1", "libcrypt.so.1", "libutil.so.1"):
        try:
            ctypes.CDLL(name)
        except OSError:
            pass  # not on this machine
    import sqlite3  # noqa: F401  loads an extension module and its library

    results = []
    threads = [threading.Thread(target=of_thread, args=(results,)) for _ in range(20)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert results == [499500] * 20
    gc.collect()


def answer(what):
    if what == "state":
        gc.collect()
        return dict(of_kernel(), **of_interpreter())
    if what == "live":
        live()
    return {}


def main():
    # Whatever these import or make is there from now on; the end of a thread loads libgcc_s before 3.9.
    of_interpreter(), of_kernel()
    thread = threading.Thread(target=of_thread, args=([],))
    thread.start()
    thread.join()
    del thread
    report.ready()
    asked = 0
    while True:
        path = "%s.%d" % (os.environ["ASK"], asked)
        if os.path.exists(path):
            with open(path) as file:
                what = file.read()
            result = answer(what)
            with open(path + ".new", "w") as file:
                json.dump(result, file)
            os.rename(path + ".new", path + ".done")
            if what == "end":
                return
            asked += 1
        report["loops"] += 1
        time.sleep(0.002)


main()
