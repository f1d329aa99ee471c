"""A rank of a real job on gloo: target_torch_ranks.py STORE WHO. WHO stays away once STORE.away exists."""

import os
import sys
import time

import torch
import torch.distributed as dist
from report import Report

report = Report("steps")
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=RANK, world_size=WORLD)


def stay_away():
    while True:
        time.sleep(3600)


def train():
    while True:
        if int(sys.argv[2]) == RANK and os.path.exists(sys.argv[1] + ".away"):
            stay_away()
        dist.all_reduce(torch.ones(16))
        report["steps"] += 1
        time.sleep(0.01)


report.ready()
train()
