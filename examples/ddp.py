"""Two ranks train one model with DistributedDataParallel, four small batches for each step of the
optimizer, and its author forgot `no_sync()`: gradients are exchanged four times as often as needed.

    PROBING_TORCH_PROFILING=on PROBING=1 python examples/ddp.py

(it says which process is which rank). Do the ranks agree, where does the time go, and how often do they
talk to each other? Collectives that C++ starts are in torch's flight recorder.

    probing query "SELECT rank, count(*), avg(duration), avg(backward) FROM global.python.torch_steps
        WHERE timestamp > now() - interval '5 seconds' GROUP BY rank ORDER BY rank"
    probing -t <pid of rank 0> query "SELECT op, bytes, count(*) FROM python.flight_recorder GROUP BY ALL"
    probing -t <pid of rank 0> query "SELECT s.step, count(*) AS all_reduces FROM python.flight_recorder AS f
        ASOF JOIN python.torch_steps AS s ON f.timestamp >= s.timestamp WHERE f.op = 'all_reduce'
        GROUP BY s.step ORDER BY s.step DESC LIMIT 5"
"""

import time

import torch
import two_ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BATCHES = 4


def train(rank):
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)))
    optimizer = torch.optim.AdamW(model.parameters())
    generator = torch.Generator().manual_seed(rank)
    while True:
        optimizer.zero_grad()
        for _ in range(BATCHES):  # all but the last belong into `with model.no_sync():`
            x = torch.randn(32, 64, generator=generator)
            loss = nn.functional.mse_loss(model(x), x.mean(1, keepdim=True)) / BATCHES
            loss.backward()
        optimizer.step()
        time.sleep(0.01)


if __name__ == "__main__":
    two_ranks.run(train)
