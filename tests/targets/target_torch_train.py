"""A training loop of PyTorch on the CPU: autograd's threads, OpenMP's, and Python in between.

target_torch_train.py THREADS    of OpenMP
"""

import sys

import torch
from report import Report

report = Report("steps")
torch.set_num_threads(int(sys.argv[1]))
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3),
    torch.nn.ReLU(),
    torch.nn.Flatten(),
    torch.nn.Linear(8 * 14 * 14, 64),
    torch.nn.LayerNorm(64),
    torch.nn.Linear(64, 10),
)
optimizer = torch.optim.AdamW(model.parameters())


def step(batch, labels):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(batch), labels)
    loss.backward()
    optimizer.step()


def train():
    while True:
        step(torch.randn(32, 3, 16, 16), torch.randint(0, 10, (32,)))
        report["steps"] += 1


step(torch.randn(32, 3, 16, 16), torch.randint(0, 10, (32,)))
report.ready()
train()
