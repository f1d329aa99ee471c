"""Compares two states on a machine whose speed changes all the time.

Blocks of some tens of milliseconds follow each other as A B B A or B A A B, drawn anew each time, so that
what gets slower meanwhile slows both. A four of blocks gives one number: how much longer a step of A is than
one of B. What others do on the machine makes some steps slower, up to twice, and none faster: of the steps
of a block the one counts that a quarter of them are faster than, where every step has the cost in question
(FASTER), or else the mean, in which no step is longer than that one by more than CAP (CAPPED) or all
are as they are (MEAN). Fours in which either state was slower, by FASTER, than its own quickest
ones by more than CALM are left out, as long as enough remain: somebody else had the core, or the caches.
Of the fours' numbers the highest and lowest fifth are left out; the mean of the others is the estimate. The
interval is where 95 % of such estimates are when the fours are drawn again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

CLOCKS = ("cpu", "wall")  # of the process, with all its threads; what passes
LEFT_OUT = 0.2
CAP = 1.15
CALM = 1.08  # times the time that a tenth of the fours are quicker than
LEAST_CALM = 12  # fours
DRAWN = 2000

Blocks = list[np.ndarray]  # what each step took, by each clock
Run = Callable[[str, int], Blocks]  # does so many steps in state "a" or "b"
Statistic = Callable[[np.ndarray], np.ndarray]  # of the last axis


def faster(steps: np.ndarray) -> np.ndarray:
    return np.quantile(steps, 0.25, axis=-1)


def capped(steps: np.ndarray) -> np.ndarray:
    return np.minimum(steps, CAP * faster(steps)[..., None]).mean(axis=-1)


def mean(steps: np.ndarray) -> np.ndarray:
    return steps.mean(axis=-1)


@dataclass
class Ratio:
    """Of A to B: the estimate, and as many that were made of fours drawn again."""

    middle: float
    drawn: np.ndarray

    def interval(self) -> tuple[float, float]:
        low, high = np.quantile(self.drawn, [0.025, 0.975])
        return float(low), float(high)

    def mixed(self, other: Ratio, share: float) -> Ratio:
        """This one most of the time, the other one for a share of it."""
        return Ratio(
            self.middle + share * (other.middle - self.middle),
            self.drawn + share * (other.drawn - self.drawn),
        )

    def over(self, other: Ratio) -> Ratio:
        """Both to the same B: of this one to the other. They were drawn independently."""
        return Ratio(
            self.middle / other.middle, self.drawn / np.random.default_rng(1).permutation(other.drawn)
        )


def trimmed(values: np.ndarray) -> np.ndarray:
    """The mean of the last axis without its ends."""
    out = int(values.shape[-1] * LEFT_OUT)
    return np.sort(values, axis=-1)[..., out : values.shape[-1] - out].mean(axis=-1)


def is_calm(took: np.ndarray) -> np.ndarray:
    return took <= CALM * np.quantile(took, 0.1)


def estimate(a: np.ndarray, b: np.ndarray, statistic: Statistic) -> Ratio:
    """Of steps, one row for each four."""
    calm = is_calm(faster(a)) & is_calm(faster(b))
    if calm.sum() < LEAST_CALM:
        calm[:] = True
    fours = np.log(statistic(a[calm]) / statistic(b[calm]))
    dice = np.random.default_rng(0)
    drawn = trimmed(fours[dice.integers(0, len(fours), (DRAWN, len(fours)))])
    return Ratio(float(np.exp(trimmed(fours))), np.exp(drawn))


def block(step: Callable[[], object], skipped: int, steps: int) -> Blocks:
    for _ in range(skipped):
        step()
    cpu, wall = [time.process_time()], [time.perf_counter()]
    for _ in range(steps):
        step()
        cpu.append(time.process_time())
        wall.append(time.perf_counter())
    return [np.diff(cpu), np.diff(wall)]


def switching(step: Callable[[], object], switch: Callable[[str], object], skipped: int = 2) -> Run:
    """In this process, whose state is switched when it has to be; steps right after that are not counted."""
    state = [""]

    def run(wanted: str, steps: int) -> Blocks:
        if wanted != state[0]:
            switch(wanted)
            state[0] = wanted
        return block(step, skipped, steps)

    return run


def compare(
    run: Run, seconds: float, length: float, statistic: Statistic = faster
) -> tuple[dict[str, Ratio], int]:
    """The ratio of A to B by each clock, and of how many fours. Blocks take about `length` seconds. Ends in
    state B."""
    run("a", 3)
    steps = max(4, round(length / float(np.median(run("b", 10)[1]))))
    fours: list[dict[str, list[Blocks]]] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(fours) < 5:
        took: dict[str, list[Blocks]] = {"a": [], "b": []}
        for wanted in random.choice(("abba", "baab")):
            took[wanted].append(run(wanted, steps))
        fours.append(took)
    run("b", 2)
    found = {}
    for clock, name in enumerate(CLOCKS):
        sides = [
            np.array([np.concatenate([one[clock] for one in four[kind]]) for four in fours]) for kind in "ab"
        ]
        found[name] = estimate(sides[0], sides[1], statistic)
    return found, len(fours)
