"""Real jobs of real frameworks on this machine, and what goes wrong with them (target_framework.py)."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import harness
import install_hook
from harness import Cli, wait_until
from zygote import TORCH, ForkedProcess, Zygote

FRAMEWORKS_PYTHON = harness.ROOT / "build/frameworks-venv/bin/python"  # tools/install_deps.sh frameworks
MODULES = {"trainer": ("transformers.trainer", "accelerate"), "lightning": ("lightning",)}
WITHIN_S = 30  # what is promised
# Trouble, and the classes it may be found as.
HANG = ("collective_hang", "hang")
HANGS = [
    "input",
    "pdb",
    "file_lock",
    "fifo",
    "http",
    "loop",
    "condition",
    "deadlock",
    "gil",
    "start",
    "end",
    "stopped_worker",
]
TROUBLES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(HANGS, HANG),
    **dict.fromkeys(["exit0", "exit3", "death", "signal", "killed_worker"], ("first_death",)),
    **dict.fromkeys(("op", "size"), ("collective_mismatch",)),
    "straggler": ("straggler",),
    "slow_optimizer": ("straggler",),
    "slow_worker": ("data_stall", "straggler"),
    "affinity": ("cpu_contention", "straggler"),
    "gc": ("gc_pause",),
    "data_stall": ("data_stall",),
    "nan": ("nan",),
    "leak": ("memory_growth",),
    "checkpoint": ("slow_checkpoint",),
}
HEALTHY = tuple(
    [
        "none",
        "validation",
        "after",
        "uneven",
        "pauses",
        "compile",
        "profiler",
        "shutdown",
        "prefetch",
        "two",
        "restart",
    ]
)
ONLY_DDP = ("compile", "prefetch", "uneven")  # and what has its loop
FRAMEWORKS = ("ddp", "fsdp", "mesh", "trainer", "lightning", "pipeline", "loader")
NEEDS_WORKERS = ("stopped_worker", "killed_worker", "slow_worker")
NEEDS_TRACING = ("data_stall", "slow_worker", "nan", "checkpoint")  # is switched on when it has been injected
ENDS = ("end", "exit0", "exit3", "death", "signal", "killed_worker", "op", "size")
_ports = itertools.count(21000 + os.getpid() % 20000)
_numbers = itertools.count()


def is_possible(framework: str, trouble: str) -> bool:
    if trouble in NEEDS_WORKERS:
        return framework in ("loader", "trainer", "lightning")
    if framework == "pipeline":  # no operation of the whole group; each stage waits for the one before
        return trouble not in ("op", "size", "end", "nan")
    return True


class FrameworkJob:
    """`way`: "inject" (in the middle), "start" (from the first instruction), "torchrun" (PROBING=1)."""

    def __init__(
        self,
        probing: Cli,
        zygote: Zygote | None,
        folder: Path,
        framework: str,
        trouble: str,
        who: int,
        step: int,
        world: int,
        way: str,
    ) -> None:
        self.probing, self.folder, self.world, self.way = probing, folder, world, way
        self.name = f"{framework}-{trouble}-{os.getpid()}-{next(_numbers)}"
        self.trouble = trouble
        os.mkfifo(folder / "terminal")
        program = [
            str(harness.TARGETS / "target_framework.py"), framework, trouble, str(who), str(step), str(folder)
        ]  # fmt: skip
        environment = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
        if way != "inject" and trouble in NEEDS_TRACING:
            environment["PROBING_TORCH_PROFILING"] = tracing(trouble)
        self.launcher: subprocess.Popen[bytes] | None = None
        self.ranks: list[ForkedProcess] = []
        if zygote is None:
            self._launch(program, environment)
            return
        port = str(next(_ports))
        for rank in range(world):
            stdout = folder / f"stdout{rank}"
            os.mkfifo(stdout)
            order = {
                "program": program[0],
                "arguments": program[1:],
                "stdout": str(stdout),
                "stderr": str(folder / f"stderr{rank}"),
                "environment": environment
                | {
                    "RANK": str(rank),
                    "LOCAL_RANK": str(rank),
                    "WORLD_SIZE": str(world),
                    "LOCAL_WORLD_SIZE": str(world),
                    "GROUP_RANK": "0",
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": port,
                    "TORCHELASTIC_RUN_ID": self.name,
                },
            }
            (folder / f"stderr{rank}").touch()
            if way == "start":
                order["library"] = str(harness.BIN / "libprobing.so")
            pid = zygote.ask(order)
            reader = os.open(stdout, os.O_RDONLY | os.O_NONBLOCK)
            self.ranks.append(ForkedProcess(zygote, pid, Path("/dev/null")))
            self.ranks[-1].stdout_reader = reader

    def _launch(self, program: list[str], environment: dict[str, str]) -> None:
        """As people do, with the package's start hook where pip would have put it."""
        python = FRAMEWORKS_PYTHON if FRAMEWORKS_PYTHON.exists() else TORCH
        if self.way == "torchrun":
            environment |= {"PROBING": "1", "PROBING_LIBRARY": str(harness.BIN / "libprobing.so")}
        command = [
            str(python), "-m", "torch.distributed.run", f"--nproc-per-node={self.world}",
            f"--max-restarts={int(self.trouble == 'healthy_restart')}", "--rdzv-backend=c10d",
            f"--rdzv-endpoint=127.0.0.1:{next(_ports)}", f"--rdzv-id={self.name}", *program,
        ]  # fmt: skip
        with (self.folder / "stderr0").open("wb") as stderr:
            self.launcher = subprocess.Popen(
                command,
                env=harness.clean_environment(**environment, PYTHONPATH=str(_start_hook(self.folder))),
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                start_new_session=True,
            )

    def report(self, rank: int) -> tuple[int, int]:
        """Its steps, and when the trouble began, in ns."""
        try:
            return struct.unpack("<qq", (self.folder / f"rank{rank}").read_bytes())
        except (OSError, struct.error):
            return 0, 0

    def errors(self) -> str:
        return "".join(path.read_text(errors="replace")[-2000:] for path in self.folder.glob("stderr*"))

    def await_steps(self, count: int, rank: int = 0) -> None:
        def reached() -> bool:
            return self.report(rank)[0] >= count

        try:
            wait_until(reached, 120, f"{count} steps")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.errors()}") from None

    def switch_on(self) -> None:
        """In the middle of it."""
        self.probing("-t", f"job:{self.name}", "inject", timeout=60).expect(0)
        if self.trouble in NEEDS_TRACING:
            pids = [one["pid"] for one in harness.rows(self.probing, RANKS_OF + f"'{self.name}'")]
            for pid in pids:
                setting = f"probing.torch.profiling={tracing(self.trouble)}"
                self.probing("-t", pid, "config", setting, timeout=60).expect(0)

    def ask(self, patience: float, *options: object) -> dict:
        answer = self.probing("diagnose", "--json", "--patience", patience, *options, timeout=90)
        assert answer.code in (0, 6), answer
        assert answer.json["problems"] == [], answer.json
        # Jobs that were before it have ended, and some of them badly.
        mine = [one for one in answer.json["findings"] if one["job"] in (self.name, None)]
        return answer.json | {"findings": mine, "all": answer.json["findings"]}

    def end(self) -> None:
        if self.launcher is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.launcher.pid, signal.SIGKILL)
            self.launcher.wait()
            for path in Path("/proc").glob("[0-9]*/environ"):
                with suppress(OSError):
                    if f"TORCHELASTIC_RUN_ID={self.name}".encode() in path.read_bytes():
                        os.kill(int(path.parent.name), signal.SIGKILL)
        for rank in self.ranks:
            with suppress(ProcessLookupError):
                os.killpg(rank.pid, signal.SIGKILL)
            wait_until(lambda rank=rank: rank.poll() is not None, 20, "it ends")
            rank.stdout.close()
            os.close(rank.stdout_reader)


RANKS_OF = "SELECT pid FROM probing.targets WHERE job_role = 'rank' AND state = 'live' AND job = "


def tracing(trouble: str) -> str:
    return "on,exprs=loss@compute_loss" if trouble == "nan" else "on"


def _start_hook(folder: Path) -> Path:
    """The package's .pth file, where only Pythons that are told of this folder read it."""
    place = folder / "hook"
    place.mkdir()
    start = install_hook.pth_line(harness.BIN / "libprobing.so")
    (place / "sitecustomize.py").write_text(
        f"import sys\nsys.path.append({str(harness.ROOT / 'python')!r})\n{start}"
    )
    return place


@dataclass
class Run:
    """How one job went. `seconds`: from when it went wrong to the answer that says so."""

    framework: str
    trouble: str
    way: str
    who: int
    finding: dict | None = None
    seconds: float = 0
    false: list[dict] = field(default_factory=list)  # that any of the answers had beside it
    seen: list[dict] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        return self.finding is not None and self.seconds <= WITHIN_S and not self.false


class IdleShare:
    """Of this machine, since it was made: on one that is busy with other things contention is the truth."""

    def __init__(self) -> None:
        self.begin = self.read()

    @staticmethod
    def read() -> tuple[int, int]:
        numbers = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
        return numbers[3], sum(numbers)

    def share(self) -> float:
        idle, total = self.read()
        return (idle - self.begin[0]) / max(1, total - self.begin[1])


BUSY = 0.2


@contextlib.contextmanager
def started(*arguments: object) -> Iterator[FrameworkJob]:
    job = FrameworkJob(*arguments)
    try:
        yield job
    finally:
        job.end()


def run(
    probing: Cli,
    zygote: Zygote | None,
    folder: Path,
    framework: str,
    trouble: str,
    seed: int,
    world: int,
    patience: float,
    way: str,
    then: Callable[[FrameworkJob, Run], None] = lambda job, run: None,
) -> Run:
    """Diagnose is asked again and again, without a hint, from when it goes wrong; and once more later."""
    chance = random.Random(f"{framework} {trouble} {seed}")
    who, step = chance.randrange(world), chance.randrange(45, 70)
    if way == "inject" and trouble in NEEDS_TRACING:
        step += 100  # what was before it is watched is not known
    result = Run(framework, trouble, way, who)
    with started(probing, zygote, folder, framework, trouble, who, step, world, way) as job:
        if way == "inject":
            if trouble == "start":
                wait_until(lambda: job.report(who)[1], 90, "it begins")
                time.sleep(1)
            else:
                job.await_steps(10, (who + 1) % world)
            job.switch_on()
        try:
            wait_until(lambda: job.report(who)[1], 120, f"{trouble} begins")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{job.errors()}") from None
        began = job.report(who)[1] / 1e9
        answers_after = 0
        idle = IdleShare()
        while answers_after < 2 and time.time() - began <= WITHIN_S + 1:
            answer = job.ask(patience)
            result.seen = answer["seen"]
            for finding in answer["findings"]:
                if finding["class"] in TROUBLES[trouble] and finding["ranks"] == [who]:
                    if result.finding is None:
                        result.finding, result.seconds = finding, time.time() - began
                elif finding["class"] != "cpu_contention" or idle.share() > BUSY:
                    result.false.append(finding)
            others = [
                f for f in answer["findings"] if f["class"] in TROUBLES[trouble] and f["ranks"] == [who]
            ]
            result.false += others[1:]
            answers_after += result.finding is not None
            if result.false:
                break
        then(job, result)
    return result


# ── jobs with nothing wrong ──────────────────────────────────────────────────────────────────


def run_healthy(
    probing: Cli, zygote: Zygote, folder: Path, framework: str, kind: str, world: int, patience: float
) -> list[dict]:
    """Asked all the time, also at its end; what it found."""
    found: list[dict] = []
    begins = 40
    trouble = "none" if kind in ("none", "two") else f"healthy_{kind}"
    way, forks = ("torchrun", None) if kind == "restart" else ("inject", zygote)
    with contextlib.ExitStack() as stack:
        jobs = []
        for number in range(2 if kind == "two" else 1):
            own = folder / str(number)
            own.mkdir()
            job = started(probing, forks, own, framework, trouble, 0, begins, world, way)
            jobs.append(stack.enter_context(job))
        for job in jobs:
            job.await_steps(10)
            if way == "inject":
                job.switch_on()
        end = time.time() + {"validation": 32, "after": 32, "restart": 25}.get(kind, 12)
        idle = IdleShare()
        while time.time() < end:
            names = [job.name for job in jobs]
            found += [one for one in jobs[0].ask(patience)["all"] if one["job"] in (*names, None)]
        if idle.share() <= BUSY:
            found = [one for one in found if one["class"] != "cpu_contention"]
        if kind not in ("after", "shutdown"):
            for job in jobs:
                job.await_steps(job.report(0)[0] + 10)
    return found
