"""Trains a small model on the CPU without a pause; counts its steps.

    python target_gradients.py [MORE]

With MORE, so many thousand small objects are alive as well. Needs torch.
"""

import sys
import threading
import time

import report
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
m = torch.nn.Sequential(*[layer for _ in range(12) for layer in (torch.nn.Linear(64, 64), torch.nn.ReLU())])
optimizer = torch.optim.SGD(m.parameters(), lr=0.01)
data = torch.randn(64, 64)
crowd = [[i] for i in range(int(sys.argv[1]) * 1000)] if len(sys.argv) > 1 else []
slots = report.Report("steps", "longest_us")


def watch_the_gil():
    """The longest time in which this thread got no turn."""
    last = time.perf_counter()
    while True:
        time.sleep(0.0005)
        now = time.perf_counter()
        slots["longest_us"] = max(slots["longest_us"], int((now - last) * 1e6))
        last = now


threading.Thread(target=watch_the_gil, daemon=True).start()
slots.ready()
while True:
    optimizer.zero_grad()
    loss = m(data).pow(2).mean()
    loss.backward()
    optimizer.step()
    slots["steps"] += 1
