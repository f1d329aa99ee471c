"""A rank of a plain DistributedDataParallel job on gloo: target_ddp.py STORE TROUBLE WHO.

RANK and WORLD_SIZE are in its environment, STORE is a file the ranks meet at. It calls no function of
torch.distributed while it trains: all its collectives are started by C++. From step 20 on rank WHO has the
TROUBLE: none, straggler (50 ms more for each step), sleep, lock, input or gil (it never comes back), size (a
collective with another size than the others'), pipeline (sends and receives instead of DDP, and sleep). With
rendezvous it does not come to the first meeting. Each rank writes a line for every ten steps.
"""

import os
import sys
import threading
import time

import torch
import torch.distributed as distributed
from troubles import keep_the_gil

store, trouble, who = sys.argv[1], sys.argv[2], int(sys.argv[3])
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.set_num_threads(1)


def read_dataset_index():
    print("step 10", flush=True)
    time.sleep(100000)


if trouble == "rendezvous" and rank == who:
    read_dataset_index()
distributed.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=world)
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
)
optimizer = torch.optim.SGD(model.parameters(), 0.01)


def wait_for_ever(lock):
    lock.acquire()


def load_slow_batch():
    time.sleep(0.05)


def make_trouble():
    if trouble == "straggler":
        load_slow_batch()
    elif trouble == "gil":
        keep_the_gil()
    elif trouble in ("sleep", "pipeline"):
        time.sleep(100000)
    elif trouble == "lock":
        lock = threading.Lock()
        lock.acquire()
        wait_for_ever(lock)
    elif trouble == "input":
        sys.stdin.readline()


def pass_on(batch):
    if rank > 0:
        distributed.recv(batch, rank - 1)
    if rank < world - 1:
        distributed.send(batch, rank + 1)


step = 0
while True:
    step += 1
    if step >= 20 and rank == who:
        make_trouble()
    if step == 20 and trouble == "size":
        distributed.all_reduce(torch.ones(7 if rank == who else 8))
    if trouble == "pipeline":
        pass_on(torch.ones(65536))
    optimizer.zero_grad()
    if trouble != "pipeline":
        model(torch.randn(16, 64)).sum().backward()
    optimizer.step()
    time.sleep(0.005)
    if step % 10 == 0:
        print("step", step, flush=True)
