"""A training that needs more memory with every step: it remembers its losses, and with each of them all
that autograd needs to go back from it.

    PROBING=1 python examples/leak.py

Does it grow, what is there more and more of, and who holds it?

    probing -t <pid> memory
    probing -t <pid> memory --leaks
    probing -t <pid> query "SELECT shape, count(*) FROM python.tensors GROUP BY ALL ORDER BY 2 DESC LIMIT 3"
"""

import time

import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.history = []

    def step(self):
        x = torch.randn(32, 64)
        loss = nn.functional.mse_loss(self.model(x), x.mean(1, keepdim=True))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.history.append(loss)  # .item() would keep a number only


def main():
    trainer = Trainer()
    while True:
        trainer.step()
        time.sleep(0.002)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
