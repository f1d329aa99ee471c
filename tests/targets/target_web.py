"""One rank of a training that shows the web page everything it has: steps and modules of a real model,
collectives, spans, losses, collections, an exception, a thread that hangs.

target_web.py PACKAGE [TITLE]    where the package probing lies, and a text that is put into names and values.
RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set as torchrun sets them.
"""

import gc
import os
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
import probing  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

TITLE = sys.argv[2] if len(sys.argv) > 2 else "prefetch"
LOADING_S = 0.02
COLLECT_EVERY = 300
lock = threading.Lock()


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)

    def forward(self, batch):
        weights = torch.softmax(self.query(batch) @ self.key(batch).transpose(1, 2) / 8, -1)
        return weights @ batch


class Net(nn.Module):
    def __init__(self, words=500, width=64):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.attention = Attention(width)
        self.head = nn.Linear(width, words)

    def forward(self, batch):
        return self.head(self.attention(self.embed(batch)))


def wait_for_a_lock_for_ever():
    lock.acquire()


class Batches(torch.utils.data.IterableDataset):
    def __iter__(self):
        while True:
            yield load_batch()


def load_batch():
    time.sleep(LOADING_S)
    return torch.randint(0, 500, (8, 24))


def train_step(net, optimizer, batches, step):
    with probing.span("step %d" % step):
        with probing.span("load"):
            batch = next(batches)
        with probing.span("compute", note=TITLE):
            loss = nn.functional.cross_entropy(net(batch).flatten(0, 1), batch.flatten())
            optimizer.zero_grad()
            loss.backward()
            for parameter in net.parameters():
                dist.all_reduce(parameter.grad)
        with probing.span("update"):
            optimizer.step()
    value = float(loss.detach())
    probing.log(epoch=step // 100, loss=value, accuracy=1 / (1 + value))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    lock.acquire()
    threading.Thread(target=wait_for_a_lock_for_ever, name="hung " + TITLE, daemon=True).start()
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    probing.event("start", note=TITLE)
    batches = iter(torch.utils.data.DataLoader(Batches(), batch_size=None))
    for step in range(10**9):
        train_step(net, optimizer, batches, step)
        if step % COLLECT_EVERY == 20:
            gc.collect()
        if step == 20:  # the probe's hooks are there by now
            threading.Thread(target=lambda: 1 / 0).start()
        if step == 5:
            print("ready", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    main()
