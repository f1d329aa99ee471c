"""Kinds of training that the tracer has to stand: target_torch_kinds.py KIND [ARGUMENT]. Needs torch."""

import gc
import os
import sys
import threading
import time
import weakref

import torch
from report import Report
from torch import nn

report = Report("steps", "wrong", "checksum", "alive")
torch.manual_seed(0)
torch.set_num_threads(1)


def make_model(width=32):
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(inplace=True), nn.Linear(width, 1))


def batches(width=32):
    generator = torch.Generator().manual_seed(1)
    while True:
        x = torch.randn(8, width, generator=generator)
        yield x, x.sum(1, keepdim=True)


def checksum(model):
    """The model's parameters, bit by bit."""
    total = 0
    for parameter in model.parameters():
        total = (total * 31 + int(parameter.detach().view(torch.int32).long().sum())) % (1 << 62)
    return total


def plain(model=None, steps=0):
    """Ends after so many steps, or never."""
    model = model or make_model()
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    for x, y in batches():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        report["steps"] += 1
        if report["steps"] == 1:
            report.ready()
        if steps and report["steps"] == steps:
            return report.__setitem__("checksum", checksum(model))
        time.sleep(0.001)


class Loop(nn.Module):
    """A model that trains itself: many steps are within one call."""

    def __init__(self):
        super().__init__()
        self.model = make_model()

    def forward(self):
        plain(self.model, report["steps"] + 50)


def within():
    loop = Loop()
    while True:
        loop()


def fixed(steps="600"):
    plain(steps=int(steps))
    while True:
        time.sleep(0.01)


def saving(path):
    """A checkpoint after each step; what was saved is what there is."""
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for x, y in batches():
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        torch.save(model.state_dict(), path)
        report["wrong"] += not torch.equal(torch.load(path)["0.weight"], model[0].weight)
        report["alive"] = hasattr(torch.save, "__wrapped__")
        report["steps"] += 1
        if report["steps"] == 1:
            report.ready()


def accumulate():
    """Four passes for one step, under autocast, with a gradient scaler and activation checkpoints."""
    from torch.utils.checkpoint import checkpoint_sequential

    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    scaler = torch.amp.GradScaler("cpu")
    for number, (x, y) in enumerate(batches(), 1):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = (checkpoint_sequential(model, 2, x, use_reentrant=False).float() - y).pow(2).mean() / 4
        scaler.scale(loss).backward()
        if number % 4 == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            report["steps"] += 1
            if report["steps"] == 1:
                report.ready()
            time.sleep(0.001)


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 32)
        self.again = self.layer
        self.scripted = torch.jit.script(nn.Linear(32, 32))
        self.head = nn.Linear(32, 1)

    def forward(self, x):
        return self.head(self.scripted(self.again(self.layer(x))))


def shared():
    plain(Shared())


class Generator(nn.Sequential):
    pass


class Critic(nn.Sequential):
    pass


class Teacher(nn.Sequential):
    pass


def several():
    """Ten steps of two models with optimizers of their own, one in DataParallel; then ten calls of a third
    one that only answers."""
    generator = nn.DataParallel(Generator(nn.Linear(32, 32), nn.ReLU()))
    critic, teacher = Critic(nn.Linear(32, 1)), Teacher(*make_model())
    makes, judges = torch.optim.SGD(generator.parameters(), 1e-3), torch.optim.Adam(critic.parameters())
    for number, (x, _) in enumerate(batches()):
        if number // 10 % 2:
            with torch.no_grad():
                teacher(x)
        else:
            judges.zero_grad()
            made = generator(x)
            (critic(made.detach()).mean() - critic(x).mean()).backward()
            judges.step()
            makes.zero_grad()
            critic(made).mean().neg().backward()
            makes.step()
        report["steps"] += 1
        if report["steps"] == 1:
            report.ready()
        time.sleep(0.001)


def answering():
    """No gradients, no optimizer."""
    model = Teacher(*make_model()).eval()
    with torch.inference_mode():
        for x, _ in batches():
            report["wrong"] += model(x).requires_grad
            report["steps"] += 1
            if report["steps"] == 1:
                report.ready()
            time.sleep(0.001)


class Residual(nn.Module):
    """What its modules return is gone before the next one makes a tensor, mostly at the same address."""

    def __init__(self):
        super().__init__()
        self.norm, self.first, self.second = nn.LayerNorm(32), nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x):
        x = x + self.first(self.norm(x))
        return x + self.second(x)


def residual():
    model = nn.Sequential(*[Residual() for _ in range(4)], nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for x, y in batches():
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        report["steps"] += 1
        if report["steps"] == 1:
            report.ready()
        time.sleep(0.03)  # long enough for all modules to be looked at


class Moody(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 1)

    def forward(self, x):
        if report["steps"] % 3 == 2:
            raise ValueError("not today")
        return self.layer(x)


def raising():
    model = Moody()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for x, y in batches():
        try:
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        except ValueError as error:
            report["wrong"] += str(error) != "not today"
        report["steps"] += 1
        if report["steps"] == 1:
            report.ready()
        time.sleep(0.001)


def deleted():
    """A model is made anew every few steps; how many are alive."""
    models = []
    while True:
        model = make_model()
        models.append(weakref.ref(model))
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        for _, (x, y) in zip(range(3), batches()):
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            report["steps"] += 1
        del model, optimizer
        gc.collect()
        models = [one for one in models if one() is not None]
        report["alive"] = len(models)
        if report["steps"] == 3:
            report.ready()


def background():
    thread = threading.Thread(target=plain)
    thread.start()
    thread.join()


class Diverging(nn.Module):
    """From the fiftieth step on one of its layers makes an infinity of a number, and the next a NaN."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(32, 32), nn.Linear(32, 1)
        self.middle = nn.ReLU()
        self.middle.forward = self.explode

    def explode(self, x):
        return x * float("inf") if report["steps"] >= 50 else x.relu()

    def forward(self, x):
        return self.last(self.middle(self.first(x)))


def diverging():
    plain(Diverging())


def held():
    """How often the model, its parameters and the optimizer are referred to, weakly or not, and how many
    hooks they have: counted between steps."""
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters())
    things = [model, optimizer, *model, *model.parameters()]
    for x, y in batches():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        del loss
        report["steps"] += 1
        if report["steps"] % 10 == 1:
            hooks = [value for thing in things for key, value in vars(thing).items() if "hooks" in key]
            report["alive"] = (
                len(gc.get_referrers(*things))
                + sum(weakref.getweakrefcount(thing) + sys.getrefcount(thing) for thing in things)
                + sum(len(value) for value in hooks if isinstance(value, dict))
            )
        if report["steps"] == 1:
            report.ready()


def leaking():
    """Keeps what one of its modules returns, the losses with their graphs, and what no module has made."""
    model = make_model()
    outputs, losses, inputs = [], [], []
    model[0].register_forward_hook(lambda module, given, returned: outputs.append(returned.detach()))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for x, y in batches():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss)
        inputs.append(x[:7].double())
        report["steps"] += 1
        if report["steps"] == 1:
            report.ready()
        if report["steps"] % 5000 == 0:
            for kept in (outputs, losses, inputs):
                del kept[:]
        time.sleep(0.001)


def compiled():
    """Compiled while it is traced: no break in the graph, the same numbers."""
    model, eager = Shared(), None
    model.scripted = nn.Linear(32, 32)
    eager = make_model()
    import torch._dynamo

    quick = torch.compile(model, backend="eager", fullgraph=True)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for x, y in batches():
        if report["steps"] % 20 == 0:
            torch._dynamo.reset()  # compiled anew
        with torch.no_grad():
            report["wrong"] += not torch.equal(quick(x), model(x))
        optimizer.zero_grad()  # or it would diverge, and a NaN is not equal to itself
        (nn.functional.mse_loss(quick(x), y) + 0 * eager(x).sum()).backward()
        optimizer.step()
        report["steps"] += 1
        if report["steps"] == 1:
            report.ready()
        time.sleep(0.001)


def loader(workers="2"):
    """Batches from forked workers."""
    from torch.utils.data import DataLoader, TensorDataset

    data = DataLoader(TensorDataset(torch.randn(256, 32)), 8, num_workers=int(workers))
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    while True:
        for (x,) in data:
            model(x).mean().backward()
            optimizer.step()
            report["steps"] += 1
            if report["steps"] == 1:
                report.ready()
            time.sleep(0.001)


class Labelled(nn.Linear):
    """One that torch.profiler sees by its name, too."""

    def forward(self, x):
        with torch.profiler.record_function("layer " + self.label):
            return super().forward(x)


def profiled(path):
    """Ten steps that torch.profiler looks at as well; then what it says, in microseconds, and when it was."""
    import json

    layers = [Labelled(512, 512) for _ in range(4)]
    for number, layer in enumerate(layers):
        layer.label = str(number)
    model = nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)

    x = torch.randn(1024, 512)

    def step():
        model(x).pow(2).mean().backward()
        optimizer.step()
        report["steps"] += 1

    step()
    report.ready()
    for _ in range(5):
        step()
    begin = time.time()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(10):
            step()
    said = {one.key: one.cpu_time_total for one in profiler.key_averages()}
    with open(path + ".new", "w") as file:
        json.dump({"said": said, "begin": begin, "end": time.time()}, file)
    os.rename(path + ".new", path)
    while True:
        step()
        time.sleep(0.01)


def gloo(path):
    """One rank that talks to itself."""
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method="file://" + path, rank=0, world_size=1)
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for x, y in batches():
        nn.functional.mse_loss(model(x), y).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        dist.broadcast(torch.zeros(4), 0, async_op=True).wait()
        optimizer.step()
        report["steps"] += 1
        if report["steps"] == 1:
            report.ready()
        time.sleep(0.001)


def hooked():
    """A hook of its own after each step, in which the GIL is free."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(lambda *_: time.sleep(0.002))
    plain()


def in_backward():
    """Each parameter is stepped as soon as its gradient is there, within the backward pass."""
    model = make_model()
    optimizers = {one: torch.optim.SGD([one], 1e-3) for one in model.parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for one in optimizers:
        one.register_post_accumulate_grad_hook(step)
    for x, y in batches():
        nn.functional.mse_loss(model(x), y).backward()
        report["steps"] += 1
        if report["steps"] == 1:
            report.ready()
        time.sleep(0.001)


globals()[sys.argv[1]](*sys.argv[2:])
