"""A training whose thread is in code of the probe when the probe is told to leave. Needs torch.

    python target_torch_leaving.py FOLDER

While FOLDER/hold exists, the loader does not hand out its next batch, and while FOLDER/slow exists, the value
of `state` takes a tenth of a second to print. Every tenth step forks.
"""

import os
import sys
import time

import torch
from report import Report

HOLD, SLOW = (os.path.join(sys.argv[1], name) for name in ("hold", "slow"))


class Batches(torch.utils.data.IterableDataset):
    def __iter__(self):
        while True:
            report["asked"] += 1
            while os.path.exists(HOLD):
                time.sleep(0.005)
            yield torch.ones(4)


class State(int):
    """A number: what is noted of it is its text."""

    def __repr__(self):
        if os.path.exists(SLOW):
            report["printing"] += 1
            time.sleep(0.1)
            report["printing"] -= 1
        return "7"


def fork():
    child = os.fork()
    if child == 0:
        os._exit(7)
    return os.waitpid(child, 0)[1] >> 8 == 7


def train():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    state = State(7)  # noqa: F841  looked at from outside
    for batch in torch.utils.data.DataLoader(Batches(), batch_size=None):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
        report["steps"] += 1
        if report["steps"] == 3:  # torch has all it makes in a first step; some of it keeps functions
            report.ready()
        if report["steps"] % 10 == 0:
            report["wrong"] += not fork()
        time.sleep(0.001)


report = Report("steps", "asked", "printing", "wrong")
torch.set_num_threads(1)
train()
