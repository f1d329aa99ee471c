"""What goes wrong with a rank of target_framework.py, and where in its program."""

import fcntl
import gc
import mmap
import os
import pdb
import queue
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request

import torch
import torch.distributed as dist
from troubles import deadlock, keep_the_gil

STEP_S = 0.06
SIZE = 64
RANK = int(os.environ["RANK"])
FOLDER = sys.argv[5]
kept = []


# ── it never goes on ──


def ask_the_user():
    os.dup2(os.open(os.path.join(FOLDER, "terminal"), os.O_RDWR), 0)
    sys.stdin = os.fdopen(0)
    return input("continue? ")


def look_at_bad_batch():
    os.dup2(os.open(os.path.join(FOLDER, "terminal"), os.O_RDWR), 0)
    sys.stdin = os.fdopen(0)
    pdb.Pdb(nosigint=True).set_trace()


def lock_the_cache():
    """A process that was left behind has it."""
    path = os.path.join(FOLDER, "cache.lock")
    holder = (
        "import fcntl, sys, time\nf = open(sys.argv[1], 'w')\nfcntl.flock(f, fcntl.LOCK_EX)\n"
        "print(1, flush=True)\ntime.sleep(9999)"
    )
    process = subprocess.Popen([sys.executable, "-S", "-c", holder, path], stdout=subprocess.PIPE)
    kept.append(process)
    process.stdout.readline()
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)


def read_fifo():
    path = os.path.join(FOLDER, "fifo")
    os.mkfifo(path)
    with open(path) as file:
        return file.read()


def ask_a_server():
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(1)
    kept.append(server)
    return urllib.request.urlopen("http://127.0.0.1:%d/metrics" % server.getsockname()[1]).read()


def search_for_ever():
    n = 0
    while True:
        n += 1
        n ^= n >> 3


def wait_for_thread():
    done = threading.Condition()
    with done:
        done.wait()


def load_index():
    time.sleep(100000)


# ── it ends ──


def fail():
    raise ValueError("a batch without labels")


def leave():
    os._exit(3)


def leave_normally():
    dist.destroy_process_group()
    sys.exit(0)


def die():
    os.kill(os.getpid(), signal.SIGSEGV)


def kill_a_worker():
    os.kill(child(), signal.SIGKILL)


def stop_the_workers():
    for pid in children():
        os.kill(pid, signal.SIGSTOP)


def children():
    pids = []
    for name in os.listdir("/proc/self/task"):
        with open("/proc/self/task/%s/children" % name) as file:
            pids += [int(pid) for pid in file.read().split()]
    return sorted(pids)


def child():
    return children()[0]


# ── it is different, or slow ──


def call_something_else():
    if RANK == call_something_else.who:
        dist.broadcast(torch.ones(8), 0)
    else:
        dist.all_reduce(torch.ones(8))


def call_with_another_size():
    dist.all_reduce(torch.ones(7 if RANK == call_something_else.who else 8))


def slow_part():
    time.sleep(STEP_S)


def slow_read():
    time.sleep(STEP_S / 2)  # for each example


def slow_worker_read():
    if torch.utils.data.get_worker_info().id == 0:
        time.sleep(STEP_S)


def share_a_core():
    if not kept:
        core = min(os.sched_getaffinity(0))
        os.sched_setaffinity(0, [core])
        rival = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): sum(range(100000))"
        for _ in range(3):
            command = [sys.executable, "-S", "-c", rival, str(os.getpid())]
            kept.append(subprocess.Popen(command))
    end = time.thread_time() + STEP_S
    while time.thread_time() < end:
        sum(range(1000))


def collect_garbage():
    """Many short collections, of many objects."""
    if not kept:
        kept.extend([i] for i in range(200000))
    for _ in range(4):
        gc.collect()


def keep_everything():
    kept.append(bytearray(os.urandom(1024)) * 4096)


def validate_alone():
    end = time.time() + 18
    while time.time() < end:
        evaluate(torch.nn.Linear(SIZE, SIZE))


def evaluate(model):
    with torch.no_grad():
        for _ in range(20):
            model(torch.randn(8, SIZE))
            time.sleep(0.01)


def write_report():
    """Work that rank 0 does when the others have ended."""
    end = time.time() + 22
    while time.time() < end:
        sum(len(str(i)) for i in range(20000))
        time.sleep(0.01)


class SlowToPickle(object):
    def __reduce__(self):
        time.sleep(0.4)
        return (int, ())


def save_checkpoint(model):
    state = {
        name: tensor for name, tensor in model.state_dict().items() if not hasattr(tensor, "full_tensor")
    }
    torch.save({"model": state, "slow": SlowToPickle()}, os.path.join(FOLDER, "checkpoint.pt"))


def profile():
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    profiler.start()
    kept.append(profiler)


def fail_in_the_first_life():
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        raise ValueError("a node that went away")


def prefetched(loader):
    """Batches of a loader that another thread reads."""
    batches = queue.Queue(4)

    def read():
        for batch in loader:
            batches.put(batch)

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield batches.get()


# name: (place, every rank is part of it, only once, what happens)
TROUBLES = {
    "none": (None, False, False, None),
    "input": ("loop", False, True, ask_the_user),
    "pdb": ("loop", False, True, look_at_bad_batch),
    "file_lock": ("loop", False, True, lock_the_cache),
    "fifo": ("loop", False, True, read_fifo),
    "http": ("loop", False, True, ask_a_server),
    "loop": ("loop", False, True, search_for_ever),
    "condition": ("loop", False, True, wait_for_thread),
    "deadlock": ("loop", False, True, deadlock),
    "gil": ("forward", False, True, keep_the_gil),
    "stopped_worker": ("loop", False, True, stop_the_workers),
    "start": ("start", False, True, load_index),
    "end": ("end", False, True, load_index),
    "exit0": ("loop", False, True, leave_normally),
    "exit3": ("loop", False, True, leave),
    "death": ("loop", False, True, fail),
    "signal": ("loop", False, True, die),
    "killed_worker": ("loop", False, True, kill_a_worker),
    "op": ("loop", True, True, call_something_else),
    "size": ("loop", True, True, call_with_another_size),
    "straggler": ("forward", False, False, slow_part),
    "slow_optimizer": ("optimizer", False, False, slow_part),
    "slow_worker": ("data", False, False, slow_worker_read),
    "affinity": ("loop", False, False, share_a_core),
    "gc": ("loop", False, False, collect_garbage),
    "data_stall": ("data", False, False, slow_read),
    "nan": ("loss", False, True, None),
    "leak": ("loop", False, False, keep_everything),
    "checkpoint": ("loop", False, False, save_checkpoint),
    # ── these are healthy ──
    "healthy_validation": ("loop", False, True, validate_alone),
    "healthy_after": ("end", False, True, write_report),
    "healthy_pauses": ("loop", False, False, save_checkpoint),
    "healthy_profiler": ("loop", True, True, profile),
    "healthy_restart": ("loop", False, True, fail_in_the_first_life),
}
EVERY = {"checkpoint": 3, "healthy_pauses": 200}  # steps


class Trouble(object):
    def __init__(self, name, who, step):
        self.name, self.who, self.begins = name, int(who), int(step)
        self.place, self.is_for_all, self.once, self.act = TROUBLES.get(name, TROUBLES["none"])
        call_something_else.who = self.who
        self.count = self.began = 0
        with open(os.path.join(FOLDER, "rank%d" % RANK), "w+b") as file:
            file.write(bytes(16))
            file.flush()
            self.report = mmap.mmap(file.fileno(), 16)  # shared with the workers of a loader
        self.lengths = random.Random(RANK)

    def is_mine(self):
        return self.is_for_all or self.who in (RANK, -1)

    def note(self):
        if struct.unpack_from("<q", self.report, 8)[0] == 0:
            struct.pack_into("<q", self.report, 8, int(time.time() * 1e9))

    def is_due(self, step):
        return self.is_mine() and step >= self.begins and not (self.once and self.began)

    def at(self, place, step=None, model=None):
        if place == "forward" and self.name == "healthy_uneven":
            time.sleep(STEP_S * self.lengths.random() ** 3)
        step = self.begins if place in ("start", "end") else self.count if step is None else step
        if place != self.place or not self.is_due(step) or step % EVERY.get(self.name, 1):
            return
        self.began = 1
        if place == "start":
            struct.pack_into("<q", self.report, 0, self.begins)
        self.note()
        if self.act is save_checkpoint:
            save_checkpoint(model)
        else:
            self.act()

    def change_loss(self, loss):
        if self.name == "nan" and self.is_due(self.count):
            self.began = 1
            self.note()
            loss = loss * float("nan")
        return loss

    def step_ended(self):
        self.count += 1
        struct.pack_into("<q", self.report, 0, self.count)
        if self.act is profile and self.count == self.begins + 40:
            kept.pop().stop()

    def is_over(self):
        """Of those that come to an end."""
        return self.name in ("end", "healthy_after", "healthy_shutdown") and self.count >= self.begins
