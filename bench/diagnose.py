#!/usr/bin/env python3
"""Does `probing diagnose` name what is wrong? Real jobs on gloo, each rank on a machine of its own.

    diagnose.py [--seeds 20] [--healthy 20] [--world 4] [--patience 5] [--troubles hang,nan,…]

Machines are namespaces of this one on a bridge (tests/integration/machines.py). Every kind of trouble is
provoked in a rank and at a step that the seed draws (tests/targets/target_gloo.py); then the first machine
is asked again and again, for all classes, until the right one with the right rank is named. What counts are
the seconds from the moment it went wrong; what else the same answer said stands beside them, and makes a
run wrong when it does not follow from the trouble (gloo_jobs.FOLLOWS). Healthy jobs are asked after 200
steps, and once more with a patience of 10 s. Needs root and torch. Writes JSON to bench/results/ and fails
when less than 95 % are right within 30 s, or a healthy job gives an alarm.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/integration")]

import gloo_jobs  # noqa: E402
import harness  # noqa: E402
from zygote import TORCH, Zygote  # noqa: E402

WANTED = 0.95
HEALTHY_STEPS = 200


def troubled(
    probing: harness.Cli, zygote: Zygote, trouble: str, options: argparse.Namespace
) -> dict[str, Any]:
    runs: list[gloo_jobs.Run] = []
    wrong: list[str] = []
    for seed in range(options.first, options.first + options.seeds):
        with tempfile.TemporaryDirectory() as name:
            try:
                folder = Path(name)
                run = gloo_jobs.run(probing, zygote, folder, trouble, seed, options.world, options.patience)
            except AssertionError as error:  # a job that did not start, or an answer with problems
                wrong.append(f"seed {seed}: {error}")
                continue
        runs.append(run)
        if not run.is_right:
            said = [run.finding, *run.others]
            wrong.append(f"seed {seed}: rank {run.who}, after {run.seconds:.1f} s: {said}")
    right = [run.seconds for run in runs if run.is_right]
    beside = Counter(f"{each['class']} {each['ranks']}" for run in runs for each in run.others)
    row = {
        "trouble": trouble,
        "class": gloo_jobs.TROUBLES[trouble],
        "runs": options.seeds,
        "right": len(right),
        "median_s": round(statistics.median(right), 1) if right else None,
        "worst_s": round(max(right), 1) if right else None,
        "beside": Counter(each["class"] for run in runs for each in run.others),
        "beside_ranks": beside,
        "wrong": wrong,
    }
    also = ", ".join(f"{name} {times}" for name, times in row["beside"].items())
    print(
        f"{trouble:20} {row['class']:20} {row['right']:>3} of {row['runs']:<3} {row['median_s'] or '':>5} s"
        f" {row['worst_s'] or '':>5} s   {also}",
        *(f"    {each}" for each in wrong),
        sep="\n",
        flush=True,
    )
    return row


def healthy(probing: harness.Cli, zygote: Zygote, options: argparse.Namespace) -> list[dict[str, Any]]:
    alarms = []
    for number in range(options.healthy):
        with (
            tempfile.TemporaryDirectory() as folder,
            gloo_jobs.started(probing, zygote, Path(folder), options.world, "none", -1, 0) as job,
        ):
            job.await_steps(HEALTHY_STEPS)
            for patience in (options.patience, 10):
                found = [each | {"run": number, "patience": patience} for each in job.findings(patience)]
                alarms += found
                for each in found:
                    print(f"    an alarm: {each}", flush=True)
    with_alarm = len({each["run"] for each in alarms})
    print(f"{'healthy':20} {'':20} {options.healthy - with_alarm:>3} of {options.healthy:<3}", flush=True)
    return alarms


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--healthy", type=int, default=20)
    parser.add_argument("--world", type=int, default=4, help="ranks, each on a machine of its own")
    parser.add_argument("--patience", type=float, default=5)
    parser.add_argument("--troubles", default=",".join(gloo_jobs.TROUBLES), help="'' for healthy jobs only")
    options = parser.parse_args()
    if os.getuid() != 0 or not TORCH.exists():
        sys.exit("needs root, and torch (tools/install_deps.sh torch)")
    probing = harness.Cli(harness.BIN)
    print(f"{'trouble':20} {'class':20} {'right':>10} {'median':>7} {'worst':>7}   beside it")
    zygote = Zygote()
    rows = [troubled(probing, zygote, name, options) for name in options.troubles.split(",") if name]
    alarms = healthy(probing, zygote, options) if options.healthy else []
    zygote.close()
    results = ROOT / "bench/results"
    results.mkdir(exist_ok=True)
    content = {
        **{name: getattr(options, name) for name in ("world", "patience", "seeds", "first", "healthy")},
        "load": os.getloadavg(),
        "rows": rows,
        "alarms": alarms,
    }
    (results / time.strftime("diagnose-%Y%m%d-%H%M%S.json")).write_text(json.dumps(content, indent=1) + "\n")
    broken = [row["trouble"] for row in rows if row["right"] < WANTED * row["runs"]]
    broken += ["healthy"] if alarms else []
    print(f"not kept: {', '.join(broken)}" if broken else "all promises are kept")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
