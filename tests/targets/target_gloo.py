"""A rank of a real job on gloo, and what can go wrong with it: target_gloo.py TROUBLE WHO STEP

WHO has the TROUBLE from STEP on. The ranks meet at MASTER_ADDR, as torchrun's do. What a GPU would do in a
step is a sleep, so that several ranks fit on a small machine and none of them waits for a core.
"""

import gc
import os
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from report import Report
from troubles import deadlock, keep_the_gil, wait_for_ever, wait_in_the_kernel

TROUBLE, WHO, BEGINS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
RANK = int(os.environ["RANK"])
STEP_S = 0.04
report = Report("steps", "began_ns")
kept = []


class SlowToPickle:
    def __reduce__(self):
        time.sleep(0.15)
        return (int, ())


class Batches(torch.utils.data.IterableDataset):
    """Of a job that never ends."""

    def __iter__(self):
        while True:
            if TROUBLE == "data_stall" and has_trouble():
                time.sleep(2 * STEP_S)
            yield torch.randn(32, 256), torch.randint(10, (32,))


class Block(torch.nn.Sequential):
    def forward(self, x):
        time.sleep(STEP_S)  # a GPU
        if TROUBLE == "straggler" and has_trouble():
            time.sleep(STEP_S)
        if TROUBLE == "cpu_contention" and has_trouble():
            compute()
        return super().forward(x)


def crowd():
    """Others want the core that this process is on, and it may not leave it."""
    core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, [core])
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    for _ in range(3):
        # They end with it, whoever kills it.
        kept.append(subprocess.Popen([sys.executable, "-S", "-c", RIVAL, str(os.getpid())], env=environment))


RIVAL = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): sum(range(100000))"


def compute():
    """A step that takes the CPU: as much of it as four of its sleeps."""
    end = time.thread_time() + 4 * STEP_S
    while time.thread_time() < end:
        sum(range(1000))


def use_gpu(megabytes):
    """What the stand-in for the driver's library says of this process (PROBING_NVML)."""
    path = os.environ["STAND_IN_FILE"]
    with open(path + ".new", "w") as file:
        file.write("%d %d" % (os.getpid(), megabytes))
    os.rename(path + ".new", path)


def has_trouble():
    if RANK != WHO or report["steps"] < BEGINS:
        return False
    if report["began_ns"] == 0:
        report["began_ns"] = int(time.time() * 1e9)
    return True


def in_between():
    """What else goes wrong, between two steps."""
    if TROUBLE == "memory_growth":
        kept.append(bytearray(os.urandom(1024)) * 4096)
    elif TROUBLE == "device_memory_growth":
        kept.append(None)
        use_gpu(2000 + 4 * len(kept))
    elif TROUBLE == "cpu_contention":
        if not kept:
            crowd()
    elif TROUBLE == "gc_pause":
        if not kept:
            kept.extend([i] for i in range(400000))
        gc.collect()
    elif TROUBLE == "slow_checkpoint":
        with tempfile.TemporaryFile() as file:
            torch.save({"model": model.state_dict(), "slow": SlowToPickle()}, file)
    elif TROUBLE == "death":
        raise ValueError("a batch without labels")
    elif TROUBLE == "killed":
        os.kill(os.getpid(), 9)
    elif TROUBLE == "mismatch" and report["steps"] == BEGINS:
        dist.all_gather([torch.empty(7) for _ in range(dist.get_world_size())], torch.ones(7))
    elif TROUBLE in WAITS:
        WAITS[TROUBLE]()


WAITS = {
    "hang": wait_for_ever,
    "deadlock": deadlock,
    "gil": keep_the_gil,
    "kernel": lambda: wait_in_the_kernel(tempfile.mkdtemp()),
}


def train(batches, model, optimizer):
    for images, labels in batches:
        if has_trouble():
            in_between()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        if TROUBLE == "nan" and has_trouble():
            loss = loss * float("nan")
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        report["steps"] += 1


torch.manual_seed(RANK)
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = Block(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
if "STAND_IN_FILE" in os.environ:
    use_gpu(2000)
report.ready()
batches = torch.utils.data.DataLoader(Batches(), batch_size=None)
train(batches, model, torch.optim.SGD(model.parameters(), 0.01))
