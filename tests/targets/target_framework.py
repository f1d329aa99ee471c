"""A rank of a real job, and what goes wrong with it: target_framework.py FRAMEWORK TROUBLE WHO STEP FOLDER

FRAMEWORK: ddp, fsdp (fully_shard), mesh (tensor parallel within data parallel), trainer (Hugging Face),
lightning, pipeline (send and recv), loader (DDP with a DataLoader of two workers). Rank WHO has the
TROUBLE from STEP on, every rank when WHO is -1. What a GPU would do in a step is a sleep, so that four
ranks fit on two cores. FOLDER/rankN has the number of steps and when the trouble began, in ns. Nothing is
downloaded. The launcher's variables are in the environment: torchrun's, or the test's.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from framework_troubles import FOLDER, RANK, SIZE, STEP_S, Trouble, prefetched

FRAMEWORK = sys.argv[1]
trouble = Trouble(*sys.argv[2:5])


class Examples(torch.utils.data.Dataset):
    """As many as anybody wants. Workers of a loader have a copy each."""

    def __init__(self, names=("input", "label"), batch=8):
        self.names, self.batch = names, batch

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        trouble.at("data", index // (self.batch * dist_size()))
        if self.names == ("input_ids", "labels"):
            tokens = torch.randint(0, 64, (16,))
            return {"input_ids": tokens, "labels": tokens}
        return torch.randn(SIZE), torch.randint(10, ()).long()


def dist_size():
    return int(os.environ["WORLD_SIZE"])


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(SIZE, SIZE), torch.nn.ReLU(), torch.nn.Linear(SIZE, 10)
        )

    def forward(self, x):
        time.sleep(STEP_S)  # a GPU
        trouble.at("forward")
        return self.layers(x)


def compute_loss(model, images, labels):
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss = trouble.change_loss(loss)
    return loss


def make_optimizer(parameters):
    optimizer = torch.optim.AdamW(parameters, 0.001)
    optimizer.register_step_pre_hook(lambda *_: trouble.at("optimizer"))
    return optimizer


def make_loader(workers, batch=8):
    return torch.utils.data.DataLoader(
        Examples(batch=batch),
        batch_size=batch,
        sampler=torch.utils.data.distributed.DistributedSampler(Examples(), dist_size(), RANK, shuffle=False),
        num_workers=workers,
        prefetch_factor=2 if workers else None,
    )


def train(model, loader):
    optimizer = make_optimizer(model.parameters())
    for images, labels in prefetched(loader) if trouble.name == "healthy_prefetch" else loader:
        trouble.at("loop", model=model)
        loss = compute_loss(model, images, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        trouble.step_ended()
        if trouble.is_over():
            return


def run_ddp(workers=0):
    trouble.at("start")
    dist.init_process_group("gloo")
    model = Model()
    if trouble.name == "healthy_compile":
        model = torch.compile(model)
    train(torch.nn.parallel.DistributedDataParallel(model), make_loader(workers))
    trouble.at("end")
    dist.barrier()
    dist.destroy_process_group()


def run_loader():
    run_ddp(workers=2)


def run_fsdp():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    trouble.at("start")
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = Model()
    fully_shard(model.layers[0], mesh=mesh)
    fully_shard(model.layers[2], mesh=mesh)
    train(fully_shard(model, mesh=mesh), make_loader(0))
    trouble.at("end")
    dist.barrier()
    dist.destroy_process_group()


class Sum(torch.autograd.Function):
    """Of a part of the model on each rank of a group, as tensor parallel layers end."""

    @staticmethod
    def forward(context, tensor, group):
        tensor = tensor.clone()
        dist.all_reduce(tensor, group=group)
        return tensor

    @staticmethod
    def backward(context, gradient):
        return gradient, None


class Parallel(Model):
    def __init__(self, group):
        super().__init__()
        self.group = group

    def forward(self, images):
        return Sum.apply(super().forward(images), self.group)


def run_mesh():
    """The ranks of a pair have a part of the model each, the same as those of the other pair."""
    from torch.distributed.device_mesh import init_device_mesh

    trouble.at("start")
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(mesh.get_local_rank("tp"))
    model = Parallel(mesh.get_group("tp"))
    train(
        torch.nn.parallel.DistributedDataParallel(model, process_group=mesh.get_group("dp")), make_loader(0)
    )
    trouble.at("end")
    dist.barrier()
    dist.destroy_process_group()


def run_pipeline():
    """Each rank is a stage: what it gets goes on to the next one, and the gradient back."""
    trouble.at("start")
    dist.init_process_group("gloo")
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    stage = torch.nn.Linear(SIZE, SIZE)
    optimizer = make_optimizer(stage.parameters())
    batches = iter(make_loader(0))
    while not trouble.is_over():
        images, _ = next(batches)
        trouble.at("loop", model=stage)
        if rank > 0:
            images = torch.empty(8, SIZE)
            dist.recv(images, rank - 1)
            images.requires_grad_()
        time.sleep(STEP_S / 4)
        trouble.at("forward")
        output = stage(images)
        if rank < last:
            dist.send(output.detach(), rank + 1)
            gradient = torch.empty_like(output)
            dist.recv(gradient, rank + 1)
            output.backward(gradient)
        else:
            loss = trouble.change_loss(output.square().mean())
            loss.backward()
        if rank > 0:
            dist.send(images.grad, rank - 1)
        optimizer.step()
        optimizer.zero_grad()
        trouble.step_ended()
    dist.destroy_process_group()


def run_trainer():
    import transformers

    class Progress(transformers.TrainerCallback):
        def on_step_begin(self, args, state, control, model=None, **more):
            trouble.at("loop", model=model)

        def on_optimizer_step(self, args, state, control, **more):
            pass

        def on_step_end(self, args, state, control, **more):
            trouble.step_ended()
            control.should_training_stop = control.should_training_stop or trouble.is_over()

    class Trainer(transformers.Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            time.sleep(STEP_S)
            trouble.at("forward")
            outputs = model(**inputs)
            loss = trouble.change_loss(outputs.loss)
            return (loss, outputs) if return_outputs else loss

        def create_optimizer(self, *args, **kwargs):
            optimizer = super().create_optimizer(*args, **kwargs)
            self.optimizer.register_step_pre_hook(lambda *_: trouble.at("optimizer"))
            return optimizer

    trouble.at("start")
    config = transformers.GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2)
    model = transformers.GPT2LMHeadModel(config)
    arguments = transformers.TrainingArguments(
        output_dir=os.path.join(FOLDER, "output"),
        use_cpu=True,
        max_steps=100000,
        per_device_train_batch_size=8,
        logging_steps=10,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        ddp_backend="gloo",
        dataloader_num_workers=2 if "worker" in trouble.name else 0,
    )
    Trainer(
        model=model,
        args=arguments,
        train_dataset=Examples(("input_ids", "labels")),
        callbacks=[Progress()],
    ).train()
    trouble.at("end")


def run_lightning():
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Model()

        def training_step(self, batch, index):
            loss = compute_loss(self.model, *batch)
            return loss

        def configure_optimizers(self):
            return make_optimizer(self.parameters())

        def on_train_batch_start(self, batch, index):
            trouble.at("loop", model=self.model)

        def on_train_batch_end(self, outputs, batch, index):
            trouble.step_ended()
            self.trainer.should_stop = self.trainer.should_stop or trouble.is_over()

    trouble.at("start")
    lightning.Trainer(
        accelerator="cpu",
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        strategy=lightning.pytorch.strategies.DDPStrategy(process_group_backend="gloo"),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        default_root_dir=FOLDER,
    ).fit(Module(), make_loader(2 if "worker" in trouble.name else 0))
    trouble.at("end")


def main():
    torch.manual_seed(RANK)
    torch.set_num_threads(1)
    globals()["run_" + FRAMEWORK]()


if __name__ == "__main__":
    main()
