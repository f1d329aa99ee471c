"""Loops of frameworks that time themselves: target_framework_steps.py KIND PATH [STEPS]

As target_torch_steps.py. Needs transformers, accelerate, lightning and deepspeed for those of their names.
"""

import os
import sys
import time

import torch
from target_torch_steps import (
    BATCH,
    WARM,
    WIDTH,
    back,
    begin_anew,
    make_model,
    report,
    run,
    sgd,
    spent,
    steps,
    timed,
    update,
    wait_until_traced,
)
from torch.utils.data import DataLoader, Dataset


class Examples(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        time.sleep(0.0001)
        return {"x": torch.randn(WIDTH)}


class TimedLoader(DataLoader):
    def __iter__(self):
        batches = super().__iter__()
        while True:
            with timed("data_wait"):
                found = next(batches)
            yield found


class WithLoss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = make_model()

    def forward(self, x, labels=None):
        return {"loss": self.model(x).pow(2).mean()}


class Loop:
    """The steps of a framework's own loop, from the end of one to the end of the next."""

    def __init__(self, count):
        self.count, self.number, self.ended = count, 0, time.perf_counter()

    def step_ended(self):
        now = time.perf_counter()
        spent["step"] += now - self.ended
        self.ended, self.number = now, self.number + 1
        report["steps"] += 1
        if self.number == WARM:
            begin_anew(self.count)


def trainer(count, micro_batches=1):
    import transformers

    loop = Loop(count)

    class Ended(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **more):
            loop.step_ended()

    class Trainer(transformers.Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            with timed("forward"):
                loss = model(**inputs)["loss"]
            return (loss, {}) if return_outputs else loss

        def get_batch_samples(self, *args, **kwargs):
            with timed("data_wait"):
                return super().get_batch_samples(*args, **kwargs)

    arguments = transformers.TrainingArguments(
        output_dir=os.path.dirname(sys.argv[2]),
        use_cpu=True,
        max_steps=count,
        per_device_train_batch_size=BATCH // micro_batches,
        gradient_accumulation_steps=micro_batches,
        logging_steps=10,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
    )
    one = Trainer(model=WithLoss(), args=arguments, train_dataset=Examples(), callbacks=[Ended()])
    backward = one.accelerator.backward

    def timed_backward(*args, **kwargs):
        with timed("backward"):
            backward(*args, **kwargs)

    one.accelerator.backward = timed_backward
    wait_until_traced()
    loop.ended = time.perf_counter()
    one.train()


def trainer_accumulates(count):
    trainer(count, 4)


def accelerated(count):
    import accelerate

    accelerator = accelerate.Accelerator(cpu=True)
    model = WithLoss()
    model, optimizer, loader = accelerator.prepare(
        model, torch.optim.AdamW(model.parameters()), DataLoader(Examples(), BATCH)
    )
    batches = iter(loader)

    def step(number):
        with timed("data_wait"):
            found = next(batches)
        with timed("forward"):
            loss = model(**found)["loss"]
        with timed("backward"):
            accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()

    steps(count, step)


def lightning(count):
    import lightning

    loop = Loop(count)

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = make_model()

        def training_step(self, batch, index):
            with timed("forward"):
                out = self.model(batch["x"])
            return out.pow(2).mean()

        def backward(self, loss):
            with timed("backward"):
                loss.backward()

        def optimizer_step(self, epoch, index, optimizer, optimizer_closure):
            within = [0.0]

            def closure():
                began = time.perf_counter()
                loss = optimizer_closure()
                within[0] += time.perf_counter() - began
                return loss

            optimizer.step(closure)
            spent["optimizer"] -= within[0]

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

        def on_train_start(self):
            loop.ended = time.perf_counter()

        def on_train_batch_end(self, outputs, batch, index):
            loop.step_ended()

    module, loader = Module(), TimedLoader(Examples(), BATCH)
    wait_until_traced()
    lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=count,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=os.path.dirname(sys.argv[2]),
    ).fit(module, loader)


def fsdp(count):
    """fully_shard, one rank on gloo."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo", init_method="file://%s.store" % sys.argv[2], rank=0, world_size=1)
    mesh, model = init_device_mesh("cpu", (1,)), make_model()
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = sgd(model)

    def step(number):
        with timed("forward"):
            out = model(torch.randn(BATCH, WIDTH))
        back(out.pow(2).mean())
        update(optimizer)

    steps(count, step)


def zero(stage, count):
    """DeepSpeed's optimizers, one rank on gloo."""
    import torch.distributed as dist

    output = os.dup(1)
    os.dup2(2, 1)  # it talks
    import deepspeed

    dist.init_process_group("gloo", init_method="file://%s.store" % sys.argv[2], rank=0, world_size=1)
    model = make_model()
    engine, _, _, _ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters()),
        config={
            "train_batch_size": BATCH,
            "zero_optimization": {"stage": stage},
            "zero_allow_untested_optimizer": True,
        },
        dist_init_required=False,
    )
    os.dup2(output, 1)

    def step(number):
        with timed("forward"):
            out = engine(torch.randn(BATCH, WIDTH))
        loss = out.pow(2).mean()
        with timed("backward"):
            engine.backward(loss)
        before, began = spent["optimizer"], time.perf_counter()
        engine.step()
        spent["optimizer"] = before + time.perf_counter() - began

    steps(count, step)


def zero0(count):
    zero(0, count)


def zero1(count):
    zero(1, count)


def zero2(count):
    zero(2, count)


def zero3(count):
    zero(3, count)


if __name__ == "__main__":
    run(globals())
