"""The first lines of docs/guides/launchers.md, typed as they stand, with the launchers themselves: every rank
is probed.

torchrun and mpirun are in test_start_hook.py. Needs build/launchers-venv and build/frameworks-venv
(`tools/install_deps.sh launchers`, `… frameworks`); what is not there is skipped.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import harness
import install_hook
import pytest
from zygote import TORCH

LAUNCHERS = harness.ROOT / "build/launchers-venv"
FRAMEWORKS = harness.ROOT / "build/frameworks-venv"
PAGE = harness.ROOT / "docs/guides/launchers.md"
WORLD = 2

pytestmark = pytest.mark.slow(240)

# Says which rank it is, and whether it is probed, when all ranks have met.
TRAIN = """
import os, sys, time
import torch
import torch.distributed as dist
def is_probed():
    name = '/probing-%d/%d.sock' % (os.getuid(), os.getpid())
    deadline = time.time() + 20
    while time.time() < deadline:
        if any(os.path.exists(parent + name) for parent in ('/tmp', '/dev/shm', '/var/tmp')):
            return True
        time.sleep(0.05)
    return False
def say():
    dist.all_reduce(torch.ones(1))
    with open(os.path.join(FOLDER, 'rank%d' % dist.get_rank()), 'w') as file:
        file.write('%s of %d' % (is_probed(), dist.get_world_size()))
FOLDER = os.environ['SAYS']
"""
GLOO = TRAIN + "dist.init_process_group('gloo')\nsay()\ndist.destroy_process_group()\n"
# mpirun gives ranks, but nothing that torch knows.
MPI = (
    TRAIN
    + "rank, size = (os.environ['OMPI_COMM_WORLD_' + name] for name in ('RANK', 'SIZE'))\n"
    + "dist.init_process_group('gloo', init_method='file://' + FOLDER + '/store', rank=int(rank),"
    + " world_size=int(size))\nsay()\n"
)
SPAWN = TRAIN + (
    "def rank(number):\n"
    "    store = 'file://' + FOLDER + '/store'\n"
    "    dist.init_process_group('gloo', init_method=store, rank=number, world_size=2)\n"
    "    say()\n"
    "if __name__ == '__main__':\n"
    "    START\n"
)
TORCH_SPAWN = SPAWN.replace("START", "torch.multiprocessing.spawn(rank, nprocs=2)")
PROCESSES = SPAWN.replace(
    "START",
    "ranks = [torch.multiprocessing.Process(target=rank, args=(number,)) for number in range(2)]\n"
    "    [one.start() for one in ranks], [one.join() for one in ranks]",
)
RAY = (
    TRAIN
    + "import ray, ray.train.torch\n"
    + "def loop():\n    say()\n"
    + "ray.init(num_cpus=3, include_dashboard=False)\n"
    + "config = ray.train.ScalingConfig(num_workers=2)\n"
    + "backend = ray.train.torch.TorchConfig(backend='gloo')\n"
    + "run = ray.train.RunConfig(storage_path=FOLDER)\n"
    + "train = ray.train.torch.TorchTrainer\n"
    + "train(loop, scaling_config=config, torch_config=backend, run_config=run).fit()\n"
)


@pytest.fixture
def hooked(tmp_path: Path) -> Callable[[Path], Path]:
    """An interpreter that sees what is installed in a venv, with the start hook; the venv stays as it is."""

    def make(of: Path) -> Path:
        if not (of / "bin/python").exists() or not TORCH.exists():
            pytest.skip(f"needs {of.name} (tools/install_deps.sh)")
        venv = tmp_path / "venv"
        subprocess.run([str(TORCH), "-m", "venv", "--without-pip", str(venv)], check=True)
        (site,) = venv.glob("lib/python3*/site-packages")
        packages = [next(one.glob("lib/python3*/site-packages")) for one in (of, TORCH.parent.parent)]
        (site / "packages.pth").write_text("".join(f"{one}\n" for one in packages))
        (site / "probing.pth").write_text(
            install_hook.pth_content(harness.ROOT / "python", harness.BIN / "libprobing.so")
        )
        return venv / "bin/python"

    return make


# launcher, as the page calls it in the first column: the venv it needs, how its program is run without its
# script, what ranks run
CASES: dict[str, tuple[Path, list[str], str]] = {
    "the same as a module": (TORCH.parent.parent, [], GLOO),
    "its older form": (TORCH.parent.parent, [], GLOO),
    "Accelerate": (FRAMEWORKS, ["accelerate", "-m", "accelerate.commands.accelerate_cli"], GLOO),
    "DeepSpeed": (LAUNCHERS, ["deepspeed", "-m", "deepspeed.launcher.runner"], GLOO),
    "Open MPI": (TORCH.parent.parent, [], MPI),
    "`torch.multiprocessing.spawn`": (TORCH.parent.parent, [], TORCH_SPAWN),
    "`multiprocessing.Process`": (TORCH.parent.parent, [], PROCESSES),
    "Ray Train, a cluster that the script starts": (LAUNCHERS, [], RAY),
}
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "DS_ACCELERATOR": "cpu",
    "RAY_TRAIN_V2_ENABLED": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def first_line(
    launcher: str, python: Path, program: list[str], script: Path
) -> tuple[dict[str, str], list[str]]:
    """What the page says to type: variables and words."""
    (line,) = re.findall(rf"^\| {re.escape(launcher)} \| `(.*?)` \|", PAGE.read_text(), re.M)
    words = shlex.split(line)
    variables = {}
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        variables[name] = value
    instead = {"python": [str(python)], "train.py": [str(script)]}
    if program:
        instead[program[0]] = [str(python), *program[1:]]
    instead["launch"] = ["launch", "--multi_gpu"]  # where there are GPUs, Accelerate knows by itself
    return variables, [each for word in words for each in instead.get(word, [word])]


@pytest.mark.parametrize("launcher", CASES)
def test_every_rank_is_probed_by_the_first_line_of_the_page(
    hooked: Callable[[Path], Path], tmp_path: Path, launcher: str
) -> None:
    venv, program, code = CASES[launcher]
    python = hooked(venv)
    script = tmp_path / "train.py"
    script.write_text(code)
    says = tmp_path / "says"
    says.mkdir()
    variables, command = first_line(launcher, python, program, script)
    assert variables == {"PROBING": "1"}
    if command[0] == "mpirun" and subprocess.run(["which", "mpirun"], capture_output=True).returncode != 0:
        pytest.skip("needs mpirun (Debian's openmpi-bin)")
    done = subprocess.run(
        command,
        env=harness.clean_environment(SAYS=str(says), **ENVIRONMENT, **variables),
        capture_output=True,
        text=True,
        timeout=200,
    )
    said = {path.name: path.read_text() for path in says.glob("rank*")}
    assert said == {f"rank{rank}": f"True of {WORLD}" for rank in range(WORLD)}, done
