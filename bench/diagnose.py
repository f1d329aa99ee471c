#!/usr/bin/env python3
"""Does `probing diagnose` name what is wrong? Jobs of real frameworks, and of ranks on machines of their own.

    diagnose.py [--frameworks ddp,fsdp,…] [--troubles hang,nan,…] [--ways inject,start,torchrun] [--seeds 20]
                [--healthy-kinds validation,…] [--machines 0]

Jobs of DDP, FSDP2, tensor within data parallel (mesh), Hugging Face's Trainer, Lightning, a pipeline of sends
and receives and a DataLoader with workers, all ranks on this machine (tests/integration/framework_jobs.py,
tests/targets/target_framework.py). In each, every kind of trouble is provoked in a rank and at a step that
the seed draws; the probe comes in the middle (`inject --job`), from the first instruction, or by `PROBING=1
torchrun` (the first seed of each framework); ways take turns with the seeds. Then `diagnose` is asked again
and again, for all classes, and once more after it has said what is right. A run is right when the class is,
the rank is, that took less than 30 s, and no answer had any other finding (cpu_contention is the truth
while this machine is busy with other things). Healthy jobs (long validation, work after training, uneven
lengths, pauses for checkpoints, torch.compile, a profiler, shutdown, a loader that a thread reads, two jobs
at once, an elastic restart) are asked all the time and must not give a finding. With --machines N as many
runs follow of jobs whose ranks have machines of their own (namespaces on a bridge,
tests/integration/gloo_jobs.py). Needs root and torch; frameworks that are not installed are left out and
named. Writes JSON to bench/results/ and fails when less than 95 % are right or a healthy job gives an
alarm.
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
sys.path[:0] = [str(ROOT / "tests/integration"), str(ROOT / "tools")]

import framework_jobs as jobs  # noqa: E402
import gloo_jobs  # noqa: E402
import harness  # noqa: E402
from zygote import TORCH, Zygote  # noqa: E402

WANTED = 0.95
HEALTHY_STEPS = 200  # of jobs on machines of their own


def row_of(name: str, class_name: str, runs: int, right: list[float], wrong: list[str]) -> dict[str, Any]:
    row = {
        "trouble": name,
        "class": class_name,
        "runs": runs,
        "right": len(right),
        "median_s": round(statistics.median(right), 1) if right else None,
        "worst_s": round(max(right), 1) if right else None,
        "wrong": wrong,
    }
    print(
        f"{name:26} {class_name:26} {row['right']:>3} of {runs:<3} {row['median_s'] or '':>5} s"
        f" {row['worst_s'] or '':>5} s",
        *(f"    {each}" for each in wrong),
        sep="\n",
        flush=True,
    )
    return row


# ── frameworks, all ranks on this machine ────────────────────────────────────────────────────


def framework_row(
    probing: harness.Cli, zygote: Zygote, framework: str, trouble: str, options: argparse.Namespace
) -> dict[str, Any]:
    right: list[float] = []
    wrong: list[str] = []
    ways = options.ways.split(",")
    for seed in range(options.first, options.first + options.seeds):
        way = ways[(seed + len(trouble)) % len(ways)]
        with tempfile.TemporaryDirectory() as folder:
            who: int | str = "?"
            try:
                one = jobs.run(
                    probing, None if way == "torchrun" else zygote, Path(folder), framework, trouble, seed,
                    options.world, options.patience, way,
                )  # fmt: skip
            except AssertionError as error:  # a job that did not start, or an answer with problems
                wrong.append(f"seed {seed}, {way}: {error}")
                continue
        if one.is_right:
            right.append(one.seconds)
        else:
            who = one.who
            said = [f"{f['class']} {f['ranks']} {f['evidence']}" for f in one.false]
            said += [f"right after {one.seconds:.1f} s" if one.finding else "not named"]
            wrong.append(f"seed {seed}, {way}: rank {who}: {said}")
    return row_of(f"{framework} {trouble}", "/".join(jobs.TROUBLES[trouble]), options.seeds, right, wrong)


def healthy_framework_jobs(
    probing: harness.Cli, zygote: Zygote, framework: str, options: argparse.Namespace
) -> dict[str, list[dict[str, Any]]]:
    """Of each kind of job the findings, which should be none."""
    alarms: dict[str, list[dict[str, Any]]] = {}
    for kind in filter(None, options.healthy_kinds.split(",")):
        if kind in jobs.ONLY_DDP and framework not in ("ddp", "fsdp", "loader"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = jobs.run_healthy(
                probing, zygote, Path(folder), framework, kind, options.world, options.patience
            )
        alarms[f"{framework} {kind}"] = found
        print(
            f"{framework + ' ' + kind:26} {'healthy':26} {'no alarm' if not found else 'ALARM'}",
            *(f"    {each['class']} {each['ranks']} {each['evidence']}" for each in found),
            sep="\n",
            flush=True,
        )
    return alarms


def frameworks(probing: harness.Cli, options: argparse.Namespace) -> tuple[list[dict], dict[str, list[dict]]]:
    rows: list[dict] = []
    alarms: dict[str, list[dict]] = {}
    for framework in options.frameworks.split(","):
        needs_more = framework in jobs.MODULES
        if needs_more and not jobs.FRAMEWORKS_PYTHON.exists():
            print(f"{framework}: not installed (tools/install_deps.sh frameworks)")
            continue
        python = jobs.FRAMEWORKS_PYTHON if needs_more else TORCH
        zygote = Zygote(python, jobs.MODULES.get(framework, ()))
        for trouble in options.troubles.split(","):
            if trouble in jobs.TROUBLES and jobs.is_possible(framework, trouble):
                rows.append(framework_row(probing, zygote, framework, trouble, options))
        alarms |= healthy_framework_jobs(probing, zygote, framework, options)
        zygote.close()
    return rows, alarms


# ── each rank on a machine of its own ────────────────────────────────────────────────────────


def machine_row(
    probing: harness.Cli, zygote: Zygote, trouble: str, options: argparse.Namespace
) -> dict[str, Any]:
    right: list[float] = []
    wrong: list[str] = []
    for seed in range(options.first, options.first + options.machines):
        with tempfile.TemporaryDirectory() as folder:
            try:
                run = gloo_jobs.run(
                    probing, zygote, Path(folder), trouble, seed, options.world, options.patience
                )
            except AssertionError as error:
                wrong.append(f"seed {seed}: {error}")
                continue
        if run.is_right:
            right.append(run.seconds)
        else:
            wrong.append(
                f"seed {seed}: rank {run.who}, after {run.seconds:.1f} s: {[run.finding, *run.others]}"
            )
    return row_of(f"machines {trouble}", gloo_jobs.TROUBLES[trouble], options.machines, right, wrong)


def healthy_machines(
    probing: harness.Cli, zygote: Zygote, options: argparse.Namespace
) -> dict[str, list[dict[str, Any]]]:
    alarms = {}
    for number in range(options.machines):
        with (
            tempfile.TemporaryDirectory() as folder,
            gloo_jobs.started(probing, zygote, Path(folder), options.world, "none", -1, 0) as job,
        ):
            job.await_steps(HEALTHY_STEPS)
            found = [each for patience in (options.patience, 10) for each in job.findings(patience)]
        alarms[f"machines {number}"] = found
        for each in found:
            print(f"    an alarm: {each}", flush=True)
    return alarms


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="runs of each trouble of each framework")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--machines", type=int, default=0, help="runs with a machine for each rank")
    parser.add_argument("--world", type=int, default=4, help="ranks of a job")
    parser.add_argument("--patience", type=float, default=5)
    parser.add_argument("--frameworks", default=",".join(jobs.FRAMEWORKS))
    parser.add_argument("--ways", default="inject,start,torchrun")
    parser.add_argument("--troubles", default=",".join(jobs.TROUBLES), help="'' for healthy jobs only")
    parser.add_argument("--healthy-kinds", default=",".join(jobs.HEALTHY), help="'' for none")
    options = parser.parse_args()
    if os.getuid() != 0 or not TORCH.exists():
        sys.exit("needs root, and torch (tools/install_deps.sh torch)")
    probing = harness.Cli(harness.BIN)
    print(f"{'trouble':26} {'class':26} {'right':>10} {'median':>7} {'worst':>7}")
    rows, alarms = frameworks(probing, options)
    if options.machines:
        zygote = Zygote()
        rows += [machine_row(probing, zygote, name, options) for name in gloo_jobs.TROUBLES]
        alarms |= healthy_machines(probing, zygote, options)
        zygote.close()
    results = ROOT / "bench/results"
    results.mkdir(exist_ok=True)
    content = {
        **{name: getattr(options, name) for name in ("world", "patience", "seeds", "first", "ways")},
        "load": os.getloadavg(),
        "rows": rows,
        "healthy": len(alarms),
        "alarmed": sum(bool(found) for found in alarms.values()),
        "alarms": alarms,
    }
    (results / time.strftime("diagnose-%Y%m%d-%H%M%S.json")).write_text(json.dumps(content, indent=1) + "\n")
    right, runs = sum(row["right"] for row in rows), sum(row["runs"] for row in rows)
    worst = Counter({row["trouble"]: row["runs"] - row["right"] for row in rows if row["wrong"]})
    print(f"{right} of {runs} right; {content['alarmed']} of {content['healthy']} healthy jobs gave an alarm")
    if right < WANTED * runs or content["alarmed"]:
        print(f"not kept: {', '.join(name for name, _ in worst.most_common())}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
