"""Two ranks train, and rank 1 prepares its batches slowly. Both have the same time per step, since each
waits for the other: who is at fault?

    PROBING_TORCH_PROFILING=on PROBING=1 python examples/straggler.py

The one that waits least in collectives. Then: in which part of its step, and in which line.

    probing query "SELECT rank, avg(duration_ms) AS waits_ms FROM global.python.collectives
        WHERE timestamp > now() - interval '5 seconds' GROUP BY rank ORDER BY waits_ms LIMIT 1"
    probing query "SELECT rank, avg(data_wait) * 1000 AS data_ms FROM global.python.torch_steps
        WHERE timestamp > now() - interval '5 seconds' GROUP BY rank ORDER BY data_ms DESC LIMIT 1"
    probing -t <pid of rank 1> record -d 2 -f collapsed -o -
"""

import time

import torch
import torch.distributed as dist
import two_ranks
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Batches(IterableDataset):
    def __init__(self, rank):
        self.rank = rank

    def __iter__(self):
        while True:
            if self.rank == 1:
                self.read_from_a_slow_disk()
            yield torch.randn(16)

    def read_from_a_slow_disk(self):
        time.sleep(0.004)


def train(rank):
    model = nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for x in DataLoader(Batches(rank), batch_size=8):
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()


if __name__ == "__main__":
    two_ranks.run(train)
