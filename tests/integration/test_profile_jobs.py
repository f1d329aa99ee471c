"""`probing profile` on jobs as people have them: Hugging Face's Trainer, ranks in lockstep, other
observers."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import harness
import pytest
from harness import Cli, rows, wait_until

TORCH = harness.ROOT / "build/torch-venv/bin/python"
FRAMEWORKS = harness.ROOT / "build/frameworks-venv/bin/python"
pytestmark = [
    pytest.mark.skipif(
        not TORCH.exists(), reason="needs torch in build/torch-venv (tools/install_deps.sh torch, 1 GB)"
    ),
    pytest.mark.slow(400),
]

# Says when it trains, profiles itself by hand for three steps when a file tells it to, and ends when one
# does.
TRAINER = """
import json, os, sys, time
import torch, transformers
folder = sys.argv[1]
torch.manual_seed(3)
torch.set_num_threads(1)
config = transformers.GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2)
model = transformers.GPT2LMHeadModel(config)
class Examples(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20
    def __getitem__(self, index):
        tokens = torch.arange(16) + index % 7
        return {"input_ids": tokens, "labels": tokens}
def said(name):
    return os.path.exists(os.path.join(folder, name))
class Control(transformers.TrainerCallback):
    profiler = None
    left = 0
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 3:
            open(os.path.join(folder, "ready"), "w").close()
        if self.profiler is not None:
            self.left -= 1
            if self.left == 0:
                self.profiler.stop()
                self.profiler.export_chrome_trace(os.path.join(folder, "by_hand.part"))
                os.rename(os.path.join(folder, "by_hand.part"), os.path.join(folder, "by_hand.json"))
                self.profiler = None
        if said("by_hand"):
            os.remove(os.path.join(folder, "by_hand"))
            self.profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
            self.profiler.start()
            self.left = 3
        control.should_training_stop = said("end")
arguments = transformers.TrainingArguments(
    output_dir=folder + "/out", max_steps=10**6, per_device_train_batch_size=4, report_to=[],
    save_strategy="no", logging_strategy="no", use_cpu=True, disable_tqdm=True,
    dataloader_pin_memory=False)
transformers.Trainer(model, arguments, train_dataset=Examples(), callbacks=[Control()]).train()
"""

# A rank: sums its gradients with the others', so that all end a step together.
RANK = """
import os, sys, time
import torch, torch.distributed as dist
folder = sys.argv[1]
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
number = 0
going = torch.ones(1)
while going.item():
    with torch.profiler.record_function(f"step {number}"):
        optimizer.zero_grad()
        model(torch.randn(4, 16)).square().mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        time.sleep(0.03)
        going.fill_(0.0 if rank == 0 and os.path.exists(os.path.join(folder, "end")) else 1.0)
        dist.broadcast(going, 0)
    optimizer.step()
    number += 1
    if number == 3:
        open(os.path.join(folder, f"ready{rank}"), "w").close()
dist.destroy_process_group()
"""

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def begin(python: Path, code: str, **environment: str) -> subprocess.Popen[bytes]:
        with (tmp_path / f"output{len(started)}").open("wb") as file:
            process = subprocess.Popen(
                [str(python), "-c", code, str(tmp_path)],
                stdout=file,
                stderr=file,
                env=harness.clean_environment(OMP_NUM_THREADS="1", **environment),
            )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


def wait_for(path: Path) -> None:
    wait_until(path.exists, 150, path.name)


def operators_of(path: Path) -> Counter[str]:
    events = json.loads(path.read_text())["traceEvents"]
    return Counter(event["name"] for event in events if event.get("cat") == "cpu_op")


@pytest.mark.skipif(
    not FRAMEWORKS.exists(), reason="needs build/frameworks-venv (tools/install_deps.sh frameworks)"
)
def test_operators_of_hugging_faces_trainer_are_those_of_a_profile_by_hand(
    probing: Cli, start: Start, tmp_path: Path
) -> None:
    job = start(FRAMEWORKS, TRAINER)
    wait_for(tmp_path / "ready")
    probing("-t", job.pid, "inject").expect(0)
    probing("-t", job.pid, "profile", "--steps", 3, timeout=200).expect(0)
    (tmp_path / "by_hand").touch()
    wait_for(tmp_path / "by_hand.json")
    sql = "SELECT op, calls FROM python.op_costs WHERE kind = 'op'"
    ours = {row["op"]: row["calls"] for row in rows(probing, sql, job.pid)}
    by_hand = operators_of(tmp_path / "by_hand.json")
    # Theirs ends before the optimizer's step of the fourth, ours with that of the third: both have three.
    assert ours == dict(by_hand)
    assert ours["aten::addmm"] >= 3 * 8
    (tmp_path / "end").touch()
    assert job.wait(120) == 0


def test_all_ranks_of_a_job_are_recorded_from_the_same_step_on(
    probing: Cli, start: Start, tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    common["TORCHELASTIC_RUN_ID"] = name = f"profiled{os.getpid()}"
    ranks = [start(TORCH, RANK, RANK=str(rank), LOCAL_RANK=str(rank), **common) for rank in (0, 1)]
    for rank in (0, 1):
        wait_for(tmp_path / f"ready{rank}")
    probing("-t", f"job:{name}", "inject").expect(0)
    trace = tmp_path / "trace.json"
    answer = probing("-t", f"job:{name}", "profile", "--steps", 3, "-o", trace, timeout=200).expect(0)
    assert "rank 0 (process" in answer.stdout and "rank 1 (process" in answer.stdout
    sql = "SELECT op FROM python.torch_ops WHERE kind = 'annotation' AND op LIKE 'step %' ORDER BY timestamp"
    seen = [[row["op"] for row in rows(probing, sql, process.pid)] for process in ranks]
    assert seen[0] == seen[1] and len(seen[0]) == 3
    for process in ranks:
        assert (tmp_path / f"trace-{process.pid}.json").exists()
    (tmp_path / "end").touch()
    assert [process.wait(120) for process in ranks] == [0, 0]
