"""Profiles show what the program did: shares of programs that are hard to sample, judged by statistics.

Each program (tests/targets/target_truth.py) counts how long it was in left and in right. N samples may differ
from that by chance, and by no more than chance: the bound holds for all but one run in 100,000.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import harness
import pytest
from harness import Cli, Target

StartTarget = Callable[..., Target]

SECONDS = 3
Z = 4.4  # of the normal distribution: two sides, 1e-5
# What a run on a machine with other work can be off by besides: the recording begins and ends some
# milliseconds after the counters were read, and a counter is written when its phase ends.
EDGE = 0.02

KINDS = [
    "calls",
    "recursion",
    "generators",
    "threads",
    "sleeping",
    "native",
    "asyncio",
    "paced 50",
    "paced 100",
]


def seen_share(collapsed: str) -> tuple[float, int]:
    counts = {"left": 0, "right": 0}
    for line in collapsed.splitlines():
        stack, count = line.rsplit(" ", 1)
        for name in counts:
            if f";{name}_" in stack:
                counts[name] += int(count)
    total = sum(counts.values())
    assert total > 0, collapsed
    return counts["left"] / total, total


def sampled_and_true_share(
    probing: Cli, started: Target, hz: int, *arguments: str
) -> tuple[float, float, float]:
    before = started.report()
    answer = probing(
        "-t", started.pid, "record", "-d", SECONDS, "-r", hz, "-f", "collapsed", "-o", "-", *arguments
    ).expect(0)
    after = started.report()
    left, right = (after[name] - before[name] for name in ("left", "right"))
    share, samples = seen_share(answer.stdout)
    assert noted(r"(\d+) samples are left out", answer) < 0.01 * samples, answer.stderr
    return share, left / (left + right), looks_of(samples, answer)


def looks_of(samples: int, answer: harness.Answer) -> float:
    """Samples that count for others, which came too late, say less: with weights w as much as
    (sum w)^2 / sum w^2 equal ones. The recording says how many of how many."""
    found = re.search(r"of (\d+) samples came late .* as sure as those of (\d+) samples", answer.stderr)
    return max(1.0, samples * int(found[2]) / int(found[1])) if found else samples


def noted(pattern: str, answer: harness.Answer) -> int:
    found = re.search(pattern, answer.stderr)
    return int(found[1]) if found else 0


# Every kind on the oldest and the newest Python, the two that went most wrong on all of them.
ENDS = {harness.python_ids()[0], harness.python_ids()[-1]}
CASES = [(v, k) for v in harness.python_ids() for k in KINDS if v in ENDS or k in ("recursion", "paced 50")]


@pytest.mark.parametrize(("version", "kind"), CASES)
def test_shares_are_true(probing: Cli, target: StartTarget, version: str, kind: str) -> None:
    started = target("truth", *kind.split(), python=version)
    seen, truth, samples = sampled_and_true_share(probing, started, 100)
    by_chance = Z * math.sqrt(truth * (1 - truth) / samples)
    assert abs(seen - truth) <= by_chance + EDGE, f"{seen:.3f} is not {truth:.3f} ({samples:.0f} looks)"
    started.expect_unharmed()


@pytest.mark.parametrize("kind", ["calls", "paced 100"])
def test_shares_are_true_at_ten_thousand_samples_a_second(
    probing: Cli, target: StartTarget, kind: str
) -> None:
    """Stacks that cannot be read without holding the thread are sampled less often, and nothing else is."""
    started = target("truth", *kind.split())
    seen, truth, samples = sampled_and_true_share(probing, started, 10_000)
    by_chance = Z * math.sqrt(truth * (1 - truth) / samples)
    assert abs(seen - truth) <= by_chance + EDGE, f"{seen:.3f} is not {truth:.3f} ({samples:.0f} looks)"
    started.expect_unharmed()


def test_a_target_is_not_held_all_the_time_at_ten_thousand_samples_a_second(
    probing: Cli, target: StartTarget
) -> None:
    """A hold is at least 20 us, and all of them are 5 % of a second at most: so many samples are taken, and
    those of the moments in between that need no hold."""
    options = ("record", "-d", 1, "-r", 10_000, "-f", "collapsed", "-o", "-")
    answer = probing("-t", target("calls").pid, *options).expect(0)
    left_out = noted(r"(\d+) of \d+ samples were left out so that the target is held for 5 %", answer)
    late = noted(r"(\d+) of \d+ samples came late", answer)
    assert 10_000 - left_out - late < 0.05 / 20e-6 + 1000, answer.stderr
    assert noted(r"(\d+) samples are left out", answer) == 0


def test_a_rate_that_is_too_high_is_refused(probing: Cli, target: StartTarget) -> None:
    pid = target("shares").pid
    assert "at most 10000" in probing("-t", pid, "record", "-r", 10_001).expect(2).stderr
    assert "at most 1000 with" in probing("-t", pid, "record", "-r", 1001, "--subprocesses").expect(2).stderr
