"""Two ranks train until rank 1 finds a batch it does not like and skips it, and with it an all_reduce that
rank 0 waits in, for ever.

    PROBING_TORCH_PROFILING=on PROBING=1 python examples/hang.py

Which rank is behind, what does the other one wait for, and what does this one do instead?

    probing query "SELECT rank, max(seq) AS seq FROM global.python.flight_recorder GROUP BY rank ORDER BY seq"
    probing -t <pid of rank 0> query "SELECT seq, op, bytes, state FROM python.flight_recorder
        WHERE state <> 'completed'"
    probing -t <pid of rank 1> backtrace
"""

import threading
import time

import torch
import torch.distributed as dist
import two_ranks
from torch import nn

BAD_STEP = 20


def look_at_bad_batch():
    """Waits for an event that is never set."""
    threading.Event().wait()


def train(rank):
    model = nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    step = 0
    while True:
        step += 1
        if rank == 1 and step == BAD_STEP:
            look_at_bad_batch()
        loss = model(torch.randn(8, 16)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        time.sleep(0.01)


if __name__ == "__main__":
    two_ranks.run(train)
