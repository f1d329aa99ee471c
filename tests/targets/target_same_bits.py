"""Trains with workers of a DataLoader, checkpoints and processes; each loss is written bit by bit.

    python target_same_bits.py fork|spawn FOLDER EPOCHS PAUSE

Ends after EPOCHS; with 0, at the end of the first epoch that finds FOLDER/stop. PAUSE is in seconds, after
each step. What is written to FOLDER/losses depends on the seed alone. Needs torch.
"""

import os
import random
import subprocess
import sys
import time

import torch
from torch import nn

STEPS = {"fork": 40, "spawn": 200}  # of an epoch; each starts workers, and a spawned one imports torch
BATCH = 4
WORKERS = {"fork": 2, "spawn": 1}


class Numbers(torch.utils.data.Dataset):
    """Made in a worker, from the random numbers that torch and Python have there."""

    def __init__(self, steps):
        self.steps = steps

    def __len__(self):
        return self.steps * BATCH

    def __getitem__(self, index):
        return torch.randn(16) + index / len(self), torch.tensor([random.random()])


def check_checkpoint(model, optimizer, path):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    saved = torch.load(path)["model"]
    return all(torch.equal(value, saved[name]) for name, value in model.state_dict().items())


def check_processes():
    said = subprocess.run(["/bin/sh", "-c", "echo $((6 * 7))"], stdout=subprocess.PIPE, check=True).stdout
    child = os.fork()
    if child == 0:
        os._exit(7)
    return said == b"42\n" and os.waitpid(child, 0)[1] >> 8 == 7


def main(kind, folder, epochs, pause):
    import report

    slots = report.Report("steps", "epochs", "done", "wrong")
    random.seed(1)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.2), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(
        Numbers(STEPS[kind]), BATCH, shuffle=True, num_workers=WORKERS[kind], multiprocessing_context=kind
    )
    slots.ready()
    with open(os.path.join(folder, "losses"), "w") as losses:
        while slots["epochs"] < epochs or not epochs and not os.path.exists(os.path.join(folder, "stop")):
            for number, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(x), y) * (1 + random.random())
                loss.backward()
                optimizer.step()
                losses.write(loss.item().hex() + "\n")
                if number % 10 == 0:
                    slots["wrong"] += not check_checkpoint(model, optimizer, os.path.join(folder, "saved"))
                    slots["wrong"] += not check_processes()
                slots["steps"] += 1
                time.sleep(pause)
            slots["epochs"] += 1
    slots["done"] = 1
    while True:
        time.sleep(0.01)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
