"""Loops of training that time themselves: target_torch_steps.py KIND PATH [STEPS]. Needs torch.

Each waits for PATH.go, makes some steps, notes how long they and their parts took, writes that to PATH as
JSON and goes on doing nothing. What a job does beside its steps (validation, answers of a model, threads) is
not in its times.
"""

import contextlib
import json
import os
import queue
import sys
import threading
import time

import torch
from report import Report
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import DataLoader, TensorDataset

report = Report("steps", "done")
torch.manual_seed(0)
torch.set_num_threads(1)
WIDTH, BATCH, WARM = 320, 160, 8
spent = {"step": 0.0, "data_wait": 0.0, "forward": 0.0, "backward": 0.0, "optimizer": 0.0}


@contextlib.contextmanager
def timed(part):
    began = time.perf_counter()
    yield
    spent[part] += time.perf_counter() - began


def make_model(out=1):
    return nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, out)
    )


def loss_of(model, x):
    with timed("forward"):
        out = model(x)
    return out.pow(2).mean()


def back(loss):
    with timed("backward"):
        loss.backward()


began_at = []  # calls of optimizers that are under way


def optimizer_ended(*_):
    spent["optimizer"] += time.perf_counter() - began_at.pop()


# What torch does around these hooks takes 0.2 ms on an idle machine, and more than the rest on a busy one.
register_optimizer_step_pre_hook(lambda *_: began_at.append(time.perf_counter()))
register_optimizer_step_post_hook(optimizer_ended)


def update(optimizer, *args):
    optimizer.step(*args)
    optimizer.zero_grad()


def batch():
    return torch.randn(BATCH, WIDTH)


def evaluate(model, batches):
    model.eval()
    with torch.no_grad():
        for x in batches:
            model(x)
    model.train()


def wait_until_traced():
    report.ready()
    while not os.path.exists(sys.argv[2] + ".go"):
        time.sleep(0.01)


def begin_anew(count):
    """What was before is not counted: the first steps import half of torch."""
    spent.update(dict.fromkeys(spent, 0.0), steps=count - WARM, since=time.time())


def steps(count, step, beside=None):
    """Makes the steps, once they are traced; beside(number) is what the job does between them."""
    wait_until_traced()
    for number in range(count):
        if number == WARM:
            begin_anew(count)
        if beside is not None:
            beside(number)
        with timed("step"):
            step(number)
        report["steps"] += 1


def sgd(model):
    return torch.optim.SGD(model.parameters(), 1e-4)


# ── kinds ────────────────────────────────────────────────────────────────────────────────────


def plain(count):
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters())

    def step(number):
        back(loss_of(model, batch()))
        update(optimizer)

    steps(count, step)


def accumulate(count):
    model = make_model()
    optimizer = sgd(model)

    def step(number):
        for _ in range(4):
            back(loss_of(model, batch()) / 4)
        update(optimizer)

    steps(count, step)


def gan(count, updates=1):
    """A critic that is updated so often for each time of the generator."""
    makes, judges = make_model(WIDTH), make_model()
    maker, judge = (
        torch.optim.RMSprop(makes.parameters(), 1e-4),
        torch.optim.RMSprop(judges.parameters(), 1e-4),
    )

    def step(number):
        for _ in range(updates):
            with torch.no_grad(), timed("forward"):
                made = makes(batch())
            back(loss_of(judges, made) - loss_of(judges, batch()))
            update(judge)
        with timed("forward"):
            made = makes(batch())
        back(loss_of(judges, made))
        update(maker)

    steps(count, step)


def wgan(count):
    gan(count, 5)


def layers(count):
    """An optimizer for each layer, one after the other."""
    model = make_model()
    optimizers = [torch.optim.Adam([one]) for one in model.parameters()]

    def step(number):
        back(loss_of(model, batch()))
        for one in optimizers:
            update(one)

    steps(count, step)


def groups(count):
    """As ZeRO does: one optimizer, called for each group of parameters."""
    model = make_model()
    optimizer = torch.optim.Adam([{"params": [one]} for one in model.parameters()])
    every = optimizer.param_groups

    def step(number):
        back(loss_of(model, batch()))
        for one in every:
            optimizer.param_groups = [one]
            optimizer.step()
        optimizer.param_groups = every
        optimizer.zero_grad()

    steps(count, step)


def lbfgs(count):
    model = make_model()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)

    def step(number):
        x, within = batch(), [0.0]

        def closure():
            began = time.perf_counter()
            optimizer.zero_grad()
            loss = loss_of(model, x)
            back(loss)
            within[0] += time.perf_counter() - began
            return loss

        optimizer.step(closure)
        spent["optimizer"] -= within[0]

    steps(count, step)


def closure(count):
    """As Lightning does: all of the step is within the call of the optimizer."""
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters())

    def step(number):
        x, within = batch(), [0.0]

        def inner():
            began = time.perf_counter()
            loss = loss_of(model, x)
            time.sleep(0.002)  # a loss that takes its time
            optimizer.zero_grad()
            back(loss)
            within[0] += time.perf_counter() - began
            return loss

        optimizer.step(inner)
        spent["optimizer"] -= within[0]

    steps(count, step)


def in_backward(count):
    """Each parameter is updated as soon as its gradient is there."""
    model = make_model()
    optimizers = {one: torch.optim.Adam([one]) for one in model.parameters()}
    within = [0.0]

    def hook(parameter):
        began = spent["optimizer"]
        update(optimizers[parameter])
        within[0] += spent["optimizer"] - began

    for one in optimizers:
        one.register_post_accumulate_grad_hook(hook)

    def step(number):
        loss = loss_of(model, batch())
        within[0] = 0.0
        back(loss)
        spent["backward"] -= within[0]

    steps(count, step)


def manual(count):
    model = make_model()

    def step(number):
        back(loss_of(model, batch()))
        with torch.no_grad():
            for one in model.parameters():
                one -= 1e-4 * one.grad
                one.grad.zero_()

    steps(count, step)


def manual_data(count):
    """Micro-batches, and an update that autograd does not see."""
    model = make_model()

    def step(number):
        for _ in range(2):
            back(loss_of(model, batch()))
        for one in model.parameters():
            one.data.sub_(1e-4 * one.grad)
            one.grad = None

    steps(count, step)


def gradients(count):
    """torch.autograd.grad() instead of backward(), kept by the name the job gave it."""
    grad = torch.autograd.grad
    model = make_model()
    optimizer = sgd(model)
    parameters = list(model.parameters())

    def step(number):
        loss = loss_of(model, batch())
        with timed("backward"):
            found = grad(loss, parameters)
        for one, value in zip(parameters, found):
            one.grad = value
        update(optimizer)

    steps(count, step)


def rollouts(count):
    """Learning from what the model does: calls without gradients are a part of the step."""
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters())

    def step(number):
        with torch.no_grad(), timed("forward"):
            seen = [model(batch()) for _ in range(4)]
        back(loss_of(model, batch()) + seen[0].mean())
        update(optimizer)

    steps(count, step)


def teacher(count):
    """Another model tells what is to be learnt: no validation."""
    model, knows = make_model(), make_model().eval()
    optimizer = torch.optim.Adam(model.parameters())

    def step(number):
        x = batch()
        with torch.no_grad(), timed("forward"):
            wanted = knows(x)
        back(loss_of(model, x) - wanted.mean())
        update(optimizer)

    steps(count, step)


def validation(count):
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters())
    held_back = DataLoader(TensorDataset(torch.randn(6 * BATCH, WIDTH)), BATCH)

    def step(number):
        back(loss_of(model, batch()))
        update(optimizer)

    def beside(number):
        if number and number % 10 == 0:
            evaluate(model, (x for (x,) in held_back))

    steps(count, step, beside)


def generate(count):
    model = make_model(WIDTH)
    optimizer = torch.optim.Adam(model.parameters())

    def generate():
        evaluate(model, [batch()] * 8)

    def step(number):
        back(loss_of(model, batch()))
        update(optimizer)

    steps(count, step, lambda number: generate() if number % 5 == 0 else None)


def answering(count):
    """Threads that make use of the model meanwhile, each for a short time."""
    model, other = make_model(), make_model().eval()
    optimizer = torch.optim.Adam(model.parameters())
    ended = []

    def answer():
        with torch.no_grad():
            for _ in range(3):
                other(torch.randn(4, WIDTH))

    def answers():
        while not ended:
            threads = [threading.Thread(target=answer) for _ in range(2)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
            time.sleep(0.005)

    threading.Thread(target=answers).start()

    def step(number):
        back(loss_of(model, batch()))
        update(optimizer)

    steps(count, step)
    ended.append(True)


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        time.sleep(0.0001)
        return torch.randn(WIDTH)


def loaded(count):
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters())
    batches = iter(DataLoader(Slow(), BATCH // 2))

    def step(number):
        with timed("data_wait"):
            x = next(batches)
        back(loss_of(model, x))
        update(optimizer)

    steps(count, step)


def prefetched(count):
    """The loader is read by a thread, a few batches ahead; it is slower than the training."""
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters())
    waiting = queue.Queue(2)

    def fetch():
        for x in DataLoader(Slow(), BATCH):
            waiting.put(x)

    threading.Thread(target=fetch, daemon=True).start()

    def step(number):
        with timed("data_wait"):
            x = waiting.get()
        back(loss_of(model, x))
        update(optimizer)

    steps(count, step)


def scaled(count):
    """A GradScaler leaves out steps whose gradients are infinite: they are steps of the job all the same."""
    model = make_model()
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=1 << 20)

    def step(number):
        loss = loss_of(model, batch())
        back(scaler.scale(loss * (float("inf") if number % 5 == 4 else 1.0)))
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    steps(count, step)


def checkpointed(count):
    from torch.utils.checkpoint import checkpoint_sequential

    model = make_model()
    optimizer = sgd(model)

    def step(number):
        with timed("forward"):
            out = checkpoint_sequential(model, 2, batch().requires_grad_(), use_reentrant=number % 2 == 0)
        back(out.pow(2).mean())
        update(optimizer)

    steps(count, step)


def run(kinds):
    kind, path = sys.argv[1:3]
    kinds[kind](int(sys.argv[3]) if len(sys.argv) > 3 else 60)
    with open(path + ".new", "w") as file:
        json.dump(spent, file)
    os.rename(path + ".new", path)
    report["done"] = 1
    while True:
        time.sleep(0.01)


if __name__ == "__main__":
    run(globals())
