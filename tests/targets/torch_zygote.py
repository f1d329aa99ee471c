"""Has imported torch, which takes seconds, and forks targets that need it (tests/integration/zygote.py).

Each line of stdin is an order in JSON: {"program", "arguments", "environment", "stdout", "stderr"}, answered
by the pid of a child that runs it, or {"ended": pid}, answered by how it has ended, or null. With
{"machine": pid} it runs in the namespaces of that process, below the child, and with {"library": path} that
is loaded before the program. The arguments are modules that are imported, too.
"""

import ctypes
import importlib
import json
import os
import runpy
import signal
import sys

import torch

torch.set_num_threads(1)


def make_a_step():
    """Some of torch is imported only then, and takes as long again."""
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()


def move_to(machine):
    """As nsenter does: a new namespace of processes is for children only, so one waits for the other."""
    libc = ctypes.CDLL(None, use_errno=True)
    kinds = [
        os.open("/proc/%d/ns/%s" % (machine, kind), os.O_RDONLY) for kind in ("net", "uts", "mnt", "pid")
    ]
    here = os.getcwd()
    for kind in kinds:
        if libc.setns(kind, 0) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        os.close(kind)
    os.chdir(here)
    child = os.fork()
    if child != 0:
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            os.kill(os.getpid(), signal.SIGKILL)  # by which one nobody asks
        os._exit(os.WEXITSTATUS(status))
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def show_environment():
    """In /proc/PID/environ, where a launcher's variables would be: of a fork it has those of the parent. Its
    place on the stack is written over; there is room in it (zygote.py)."""
    for name, value in os.environ.items():
        os.putenv(name, value)  # somewhere else
    text = b"".join(os.fsencode("%s=%s" % item) + b"\0" for item in os.environ.items() if item[0] != "ROOM")
    with open("/proc/self/stat") as file:
        begin, end = map(int, file.read().split()[-3:-1])
    if begin + len(text) > end:
        raise ValueError("no room for the environment")
    ctypes.memmove(begin, text.ljust(end - begin, b"\0"), end - begin)


PR_SET_PDEATHSIG = 1


def become(order):
    os.setsid()
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(order[name], os.O_WRONLY)
        os.dup2(file, number)
        os.close(file)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if "machine" in order:
        move_to(order["machine"])
    os.environ.update(order["environment"])
    show_environment()
    sys.argv = [order["program"]] + order["arguments"]
    sys.path[0] = os.path.dirname(order["program"])
    if "library" in order:
        ctypes.CDLL(order["library"])
    runpy.run_path(order["program"], run_name="__main__")


def how_it_ended(pid):
    ended, status = os.waitpid(pid, os.WNOHANG)
    if not ended:
        return None
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


make_a_step()
for module in sys.argv[1:]:
    importlib.import_module(module)
print("ready", flush=True)
while True:
    line = sys.stdin.readline()
    if not line:
        break
    order = json.loads(line)
    if "ended" in order:
        print(json.dumps(how_it_ended(order["ended"])), flush=True)
        continue
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            become(order)
            code = 0
        except SystemExit as error:
            code = error.code or 0
        except Exception:
            sys.excepthook(*sys.exc_info())  # as Python would
        finally:
            sys.stderr.flush()
            os._exit(code)  # what is left of torch's threads after a fork cannot be taken apart
    print(pid, flush=True)
