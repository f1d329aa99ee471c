"""Has imported torch, which takes seconds, and forks targets that need it (tests/integration/zygote.py).

Each line of stdin is an order in JSON: {"program", "arguments", "environment", "stdout", "stderr"}, answered
by the pid of a child that runs it, or {"ended": pid}, answered by how it has ended, or null.
"""

import json
import os
import runpy
import sys

import torch

torch.set_num_threads(1)


def make_a_step():
    """Some of torch is imported only then, and takes as long again."""
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()


def become(order):
    os.setsid()
    os.environ.update(order["environment"])
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(order[name], os.O_WRONLY)
        os.dup2(file, number)
        os.close(file)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv = [order["program"]] + order["arguments"]
    sys.path[0] = os.path.dirname(order["program"])
    runpy.run_path(order["program"], run_name="__main__")


def how_it_ended(pid):
    ended, status = os.waitpid(pid, os.WNOHANG)
    if not ended:
        return None
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


make_a_step()
print("ready", flush=True)
while True:
    line = sys.stdin.readline()
    if not line:
        break
    order = json.loads(line)
    if "ended" in order:
        print(json.dumps(how_it_ended(order["ended"])), flush=True)
        continue
    pid = os.fork()
    if pid == 0:
        try:
            become(order)
        finally:
            sys.stderr.flush()
            os._exit(1)
    print(pid, flush=True)
