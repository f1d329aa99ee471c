"""Ray Train whose workers record their steps and whose rows go to one store.

ray job submit --runtime-env-json '{"pip": ["probing"]}' -- python train.py
probing -t clickhouse://clickhouse:8123/probing diagnose
"""

from __future__ import annotations

import os
import subprocess

STORE = os.environ.get("PROBING_STORE", "clickhouse://clickhouse:8123/probing")


def start_probing(rank: int, world_size: int) -> None:
    """In each worker, before it trains."""
    # The probingd of this host is started by the first command; each is told where rows go.
    subprocess.run(["probing", "config", f"probing.store={STORE}"], check=True, stdout=subprocess.DEVNULL)

    import probing

    probing.enable_torch_profiling()

    # Ray says who a worker is when it runs already, too late for the column `rank`: so that is a table.
    #   SELECT world_rank, avg(duration) FROM python.torch_steps ANY INNER JOIN
    #   (SELECT host, pid, world_rank FROM python.ray_ranks) USING host, pid GROUP BY world_rank
    @probing.table(name="ray_ranks")
    class RayRank:
        world_rank: int
        world_size: int

    RayRank(rank, world_size).save()


def train(config: dict) -> None:
    import ray.train
    import torch
    from ray.train.torch import prepare_model

    context = ray.train.get_context()
    start_probing(context.get_world_rank(), context.get_world_size())
    model = prepare_model(torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(config["steps"]):
        loss = model(torch.randn(32, 64)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ray.train.report({"loss": loss.item()})


if __name__ == "__main__":
    from ray.train import ScalingConfig
    from ray.train.torch import TorchTrainer

    TorchTrainer(
        train, train_loop_config={"steps": 1000}, scaling_config=ScalingConfig(num_workers=8, use_gpu=True)
    ).fit()
