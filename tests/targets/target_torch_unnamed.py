"""A rank of a job that was started by hand: target_torch_unnamed.py STORE RANK WORLD_SIZE. Needs torch."""

import sys
import time

import torch.distributed as dist
from report import Report

report = Report("steps")
report.ready()  # the others are waited for below
store, rank, world_size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=world_size)
while True:
    report["steps"] += 1
    time.sleep(0.01)
