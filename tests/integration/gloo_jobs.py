"""Real jobs on gloo, each rank on a machine of its own, and what goes wrong with them (target_gloo.py)."""

from __future__ import annotations

import contextlib
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import harness
from harness import Cli, Target, wait_until
from machines import Machine, machines
from zygote import ForkedTarget, Zygote

PORT = "29500"
WITHIN_S = 30  # what is promised
# Trouble, and the class it has to be found as.
TROUBLES = {
    "hang": "collective_hang",
    "mismatch": "collective_mismatch",
    "deadlock": "hang",
    "gil": "hang",
    "kernel": "hang",
    "straggler": "straggler",
    "slow_network": "slow_network",
    "data_stall": "data_stall",
    "memory_growth": "memory_growth",
    "device_memory_growth": "device_memory_growth",
    "nan": "nan",
    "slow_checkpoint": "slow_checkpoint",
    "gc_pause": "gc_pause",
    "cpu_contention": "cpu_contention",
    "death": "first_death",
    "killed": "first_death",
}
ENDS_JOBS = ("death", "killed", "mismatch")  # ranks that wait for one that died fail, too
# What is true beside it: a rank that hangs keeps the others waiting, one whose steps are longer is late. Any
# other finding, or one that names other ranks, is a false one.
FOLLOWS = {
    "hang": {"hang"},
    "mismatch": {"collective_hang", "hang", "first_death"},
    "deadlock": {"collective_hang"},
    "gil": {"collective_hang"},
    "kernel": {"collective_hang"},
    "data_stall": {"straggler"},
    "slow_checkpoint": {"straggler"},
    "gc_pause": {"straggler"},
    "cpu_contention": {"straggler"},
    "death": {"collective_hang", "hang"},
    "killed": {"collective_hang", "hang"},
}
REACHES_ALL = ("nan", "mismatch")  # a NaN is in everybody's weights a step later


class GlooJob:
    def __init__(
        self, zygote: Zygote, network: list[Machine], folder: Path, trouble: str, who: int, step: int
    ) -> None:
        gpu = _gpu_library(folder) if trouble == "device_memory_growth" else None

        def start(rank: int) -> Target:
            own = folder / str(rank)
            own.mkdir()
            machine = network[rank]
            if gpu is not None:  # read by probingd, which whoever comes first starts
                machine.environment |= {"PROBING_NVML": str(gpu), "STAND_IN_FILE": str(own / "gpu")}
            environment = machine.environment | {
                "RANK": str(rank),
                "WORLD_SIZE": str(len(network)),
                "MASTER_ADDR": network[0].address,
                "MASTER_PORT": PORT,
                "GLOO_SOCKET_IFNAME": "eth0",
                "TORCHELASTIC_RUN_ID": "gloo",
                "PROBING_TORCH_PROFILING": "on,exprs=loss@train",
            }
            program = [str(harness.TARGETS / "target_gloo.py"), trouble, str(who), str(step)]
            library = str(harness.BIN / "libprobing.so")
            return ForkedTarget(zygote, program, own, environment, machine=machine.init, library=library)

        with ThreadPoolExecutor() as together:  # each is ready only when all have met
            self.ranks = list(together.map(start, range(len(network))))
        if trouble in ENDS_JOBS:
            for rank in self.ranks:
                rank.will_end()
        self.network = network

    def await_steps(self, count: int, rank: int = 0) -> None:
        wait_until(lambda: self.ranks[rank].report()["steps"] >= count, 60, f"{count} steps")

    def findings(self, patience: float, *options: object) -> list[dict]:
        """As somebody on the first machine sees them."""
        answer = self.network[0]("diagnose", "--json", "--patience", patience, *options, timeout=60)
        found = answer.expect(0).json
        assert found["problems"] == [], found
        return found["findings"]

    def end(self) -> None:
        for rank in self.ranks:  # before the first is killed: the others fail then, as its peers
            rank.harm = rank.harm or rank.find_harm()
            rank.will_end()
        for rank in self.ranks:
            rank.kill()


def _gpu_library(folder: Path) -> Path:
    """There is no GPU here: a stand-in plays the driver's library, and the ranks their memory."""
    library = folder / "nvml_stand_in.so"
    source = harness.ROOT / "src/observe/gpu/testing/nvml_stand_in.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return library


@dataclass
class Run:
    """How one job went. `seconds`: from when it went wrong to the answer that says so."""

    trouble: str
    who: int
    finding: dict | None = None
    seconds: float = 0
    others: list[dict] = field(default_factory=list)  # that the same answer had beside it

    @property
    def false_findings(self) -> list[dict]:
        """Beside the right one: of a class that does not follow from the trouble, or about other ranks."""
        follows = FOLLOWS.get(self.trouble, set()) | {TROUBLES[self.trouble]}
        return [
            each
            for each in self.others
            if each["class"] not in follows
            or not (self.trouble in REACHES_ALL or not each["ranks"] or self.who in each["ranks"])
        ]

    @property
    def is_right(self) -> bool:
        if self.finding is None or self.seconds > WITHIN_S or self.false_findings:
            return False
        return self.trouble in REACHES_ALL or self.finding["ranks"] == [self.who]


@contextlib.contextmanager
def started(
    probing: Cli, zygote: Zygote, folder: Path, world: int, trouble: str, who: int, step: int
) -> Iterator[GlooJob]:
    with machines(probing, world) as network:
        job = GlooJob(zygote, network, folder, trouble, who, step)
        try:
            yield job
        finally:
            job.end()


def run(
    probing: Cli,
    zygote: Zygote,
    folder: Path,
    trouble: str,
    seed: int,
    world: int,
    patience: float,
    then: Callable[[GlooJob, Run], None] = lambda job, run: None,
) -> Run:
    """Somebody asks again and again what is wrong, without a hint what it could be."""
    chance = random.Random(f"{trouble} {seed}")
    who, step = chance.randrange(world), chance.randrange(20, 60)
    result = Run(trouble, who)
    with started(probing, zygote, folder, world, trouble, who, step) as job:
        if trouble == "slow_network":
            job.await_steps(step)
            job.network[who].slow_down("20mbit")
            began = time.time()
        else:
            wait_until(lambda: job.ranks[who].report()["began_ns"], 90, f"{trouble} begins")
            began = job.ranks[who].report()["began_ns"] / 1e9
        if TROUBLES[trouble] == "first_death":  # Python takes its time to end, on a machine that has none
            wait_until(lambda: not job.ranks[who].alive(), 90, "it has ended")
            began = time.time()
        while result.finding is None and result.seconds <= WITHIN_S:
            found = job.findings(patience)
            result.seconds = time.time() - began
            result.others = found
            for finding in found:
                if finding["class"] == TROUBLES[trouble] and who in finding["ranks"]:
                    result.finding = finding
                    result.others = [each for each in found if each is not finding]
                    break
        then(job, result)
    return result
