"""A small network learns to add. Start it with

    PROBING=1 python examples/test_probing.py

and ask, while it runs: where is it, what are its variables, where does the time of a step go?

    probing -t <pid> backtrace
    probing -t <pid> config probing.torch.profiling=on,exprs=loss@train
    probing -t <pid> query "SELECT step, duration, forward, backward, optimizer FROM python.torch_steps"
"""

import time

import torch
from torch import nn


def train(model, optimizer):
    while True:
        x = torch.rand(64, 8)
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.002)  # a small job need not take a whole core


if __name__ == "__main__":
    torch.set_num_threads(1)
    network = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
    train(network, torch.optim.AdamW(network.parameters()))
