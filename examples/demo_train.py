"""A small training job to look into: a network learns XOR. With torch when it is there, else in
plain Python, so that the demo needs nothing installed. Runs until it is stopped."""

import math
import random
import sys
import time

DATA = [((0.0, 0.0), 0.0), ((0.0, 1.0), 1.0), ((1.0, 0.0), 1.0), ((1.0, 1.0), 0.0)]
step = 0
loss = 0.0


class PlainNetwork:
    """2 inputs, 8 hidden units, 1 output; stochastic gradient descent by hand."""

    def __init__(self, hidden=8):
        self.w1 = [[random.uniform(-1, 1) for _ in range(3)] for _ in range(hidden)]
        self.w2 = [random.uniform(-1, 1) for _ in range(hidden + 1)]

    def forward(self, x):
        inputs = (x[0], x[1], 1.0)
        self.hidden = [math.tanh(sum(w * v for w, v in zip(row, inputs))) for row in self.w1] + [1.0]
        return 1.0 / (1.0 + math.exp(-sum(w * h for w, h in zip(self.w2, self.hidden))))

    def backward(self, x, error, rate=0.3):
        inputs = (x[0], x[1], 1.0)
        for i, row in enumerate(self.w1):
            slope = error * self.w2[i] * (1.0 - self.hidden[i] ** 2)
            for j, value in enumerate(inputs):
                row[j] -= rate * slope * value
        for i, hidden in enumerate(self.hidden):
            self.w2[i] -= rate * error * hidden

    def train_step(self):
        total = 0.0
        for x, wanted in DATA:
            error = self.forward(x) - wanted
            self.backward(x, error)
            total += error * error
        return total / len(DATA)


class TorchNetwork:
    def __init__(self, torch, hidden=8):
        self.model = torch.nn.Sequential(
            torch.nn.Linear(2, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 1), torch.nn.Sigmoid()
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.3)
        self.x = torch.tensor([x for x, _ in DATA])
        self.y = torch.tensor([[y] for _, y in DATA])

    def train_step(self):
        self.optimizer.zero_grad()
        result = ((self.model(self.x) - self.y) ** 2).mean()
        result.backward()
        self.optimizer.step()
        return result.item()


def load_data():
    time.sleep(0.002)  # a data loader that is a little slow, as they are


def train(network):
    global step, loss
    while True:
        load_data()
        loss = network.train_step()
        step += 1


if __name__ == "__main__":
    random.seed(1)
    try:
        import torch

        network = TorchNetwork(torch)
    except ImportError:
        network = PlainNetwork()
    sys.stdout.write("training\n")
    sys.stdout.flush()
    train(network)
