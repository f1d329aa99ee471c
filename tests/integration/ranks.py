"""Jobs of several ranks on this machine: what the tests of ranks and of `diagnose` start."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import harness
from harness import Cli, Target, wait_until

PACKAGE = harness.ROOT / "python"
_numbers = itertools.count()


class Job:
    """Ranks with the variables that torchrun would give them."""

    def __init__(
        self,
        start: Callable[..., Target],
        store: Path,
        world: int,
        trouble: str,
        who: int,
        again: Job | None = None,  # what this is another life of
    ) -> None:
        number = next(_numbers)
        self.name = again.name if again else f"job-{os.getpid()}-{number}"
        self.restart = again.restart + 1 if again else 0
        folder = store / f"{self.name}-{self.restart}"
        folder.mkdir()
        self.ranks = [
            start("rank", PACKAGE, folder, trouble, who, **self.variables(rank, world))
            for rank in range(world)
        ]

    def variables(self, rank: int, world: int) -> dict[str, str]:
        return {
            "RANK": str(rank),
            "WORLD_SIZE": str(world),
            "LOCAL_RANK": str(rank),
            "TORCHELASTIC_RUN_ID": self.name,
            "TORCHELASTIC_RESTART_COUNT": str(self.restart),
            "PROBING_LIBRARY": str(harness.BIN / "libprobing.so"),
        }

    @property
    def pids(self) -> list[int]:
        return [rank.pid for rank in self.ranks]

    def await_steps(self, count: int, rank: int = 0) -> None:
        wait_until(lambda: self.ranks[rank].report()["steps"] >= count, 30, f"{count} steps of {self.name}")

    def findings(self, probing: Cli, *options: object) -> Iterator[dict]:
        """What is said about this job; other tests may have theirs at the same time."""
        answer = probing("diagnose", "--json", *options).expect(0).json
        assert answer["problems"] == [], answer
        return (each for each in answer["findings"] if set(each["pids"]) & set(self.pids))
