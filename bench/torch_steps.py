#!/usr/bin/env python3
"""What tracing PyTorch costs a step, beside torch.profiler, py-spy and the PyPI package `probing`. Run by
build/torch-venv's Python.

    build/torch-venv/bin/python bench/torch_steps.py [--seconds 40] [--rows idle,every] [mlp] [transformer]

One process trains, on one core; paired.py says how two of its states are compared. What the tracer hangs into
PyTorch is taken out and put back every few steps (torch_toggle.py); for "off again" the setting is changed,
for "idle" the probe is injected and ejected by the command line. Rows that compare nothing with nothing show
what the method itself can see. "default" is calculated, of the share of the steps that it traces in full; so
is what two expressions cost, beside tracing without them. The PyPI package cannot be taken out of a process,
so there two processes take turns.

Two clocks: the CPU time of all threads of the process, and the time that passes, which also has what others
do to the process. py-spy stops it, which only the second one sees. Writes JSON to bench/results/.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from paired import CLOCKS, Ratio, capped, compare, faster, mean, switching
from promises import Promises
from torch_idle import share_of_probe
from torch_models import MODELS, prepare, trainer, warm
from torch_peers import PYPI, Profiler, PySpy, Worker, has_py_spy, has_pypi
from torch_toggle import toggle

ROOT = Path(__file__).resolve().parent.parent
PROBING = str(ROOT / "build/release/bin/probing")
SETTING = "probing.torch.profiling"
DEFAULT, SELDOM = "on", "on,rate=0.000001"
LONGER = {"transformer": 2.5}  # times the seconds of a row
SHORT_BLOCK, BLOCK, LONG_BLOCK = 0.008, 0.04, 0.2  # seconds
# Compared with the same process without it.
TOGGLED = {
    "nothing (toggled)": "off",
    "between traced steps": SELDOM,
    "every step": "full",
    "with 2 exprs": f"{SELDOM},exprs=loss@train_step,number@train_step",
}
# What is compared with what, by changing the setting.
SET = {"nothing (config)": ("off", "off"), "off again": ("full;off", "off")}
IDLE = ["nothing (command)", "idle"]
PEERS = ["torch.profiler", "py-spy record", *PYPI]
# The most it may cost in percent, at the upper end of the interval (issue 6).
BOUNDS = {
    "mlp": {"idle": 0.1, "default": 0.5, "every step": 5.0, "2 exprs more": 2.0},
    "transformer": {"idle": 0.1, "default": 0.5, "every step": 2.0, "2 exprs more": 2.0},
}


def command(*arguments: str) -> None:
    subprocess.run([PROBING, *arguments], check=True, stdout=subprocess.DEVNULL)


def others_cpu() -> float:
    return time.process_time() - time.thread_time()


def settle() -> None:
    """The probe's thread has more to do after a setting has changed: that is what changing it costs."""
    for _ in range(100):
        before = others_cpu()
        time.sleep(0.005)
        if others_cpu() - before < 20e-6:
            return


def is_backward_watched() -> bool:
    """Tracing puts a C function where torch has one of Python: what all backward passes go through."""
    entry = getattr(torch.autograd, "_engine_run_backward", torch.autograd.backward)
    return not hasattr(entry, "__code__")


def setting_in_process(step: Callable[[], None]) -> Callable[[str], None]:
    """What changes the setting of the probe that this process has loaded itself, and sees it change."""
    import probing

    turns = [0]

    def configure(spec: str) -> None:
        turn = turns[0]
        turns[0] += 1
        # The bound changes too: what it costs is measured, not what it is kept to; and where nothing is
        # compared with nothing, as much is done.
        for each in spec.split(";"):
            probing.config.update({"probing.torch.max_overhead": f"{100 - turn % 2}%", SETTING: each})
            deadline = time.monotonic() + 5
            while is_backward_watched() != (each != "off"):
                time.sleep(0.001)
                assert time.monotonic() < deadline, f"{each} was not set"
            settle()
            if each != spec:
                step()

    return configure


def traced_share(step: Callable[[], None]) -> float:
    """Of the steps, by the default setting."""
    import probing

    configure = setting_in_process(step)
    configure("off")
    configure(DEFAULT)
    begin_ns = 0
    for seconds in (3, 10):  # how many it takes depends on how short they are, which it has to see first
        begin_ns, end = time.time_ns(), time.monotonic() + seconds
        while time.monotonic() < end:
            step()
    counted = "(SELECT count(DISTINCT step) FROM python.torch_{} WHERE timestamp_ns >= {})"
    trace, steps = (counted.format(table, begin_ns) for table in ("trace", "steps"))
    configure("off")
    return float(next(iter(probing.query(f"SELECT {trace} / {steps}")))[0])


def enter_and_leave(state: str) -> None:
    command("-t", str(os.getpid()), "inject" if state == "a" else "eject")
    time.sleep(0.03)


def measure(row: str, model: str, step: Callable[[], None], seconds: float) -> tuple[dict[str, Ratio], int]:
    if row in TOGGLED:
        configure = setting_in_process(step)
        switch = toggle(configure, TOGGLED[row], step)
        # Not every step has values, and how many have is a share of the time: a mean, of longer blocks.
        length, statistic = (BLOCK, capped) if "exprs" in row else (SHORT_BLOCK, faster)
        try:
            return compare(switching(step, switch), seconds, length, statistic)
        finally:
            switch("a")  # the probe takes out what it has put in
            configure("off")
    if row in SET:
        configure, specs = setting_in_process(step), dict(zip("ab", SET[row], strict=True))
        return compare(switching(step, lambda state: configure(specs[state])), seconds, BLOCK)
    if row in PYPI:
        workers = {"a": Worker(model, PYPI[row]), "b": Worker(model, None)}
        try:
            return compare(lambda state, steps: workers[state].run(steps), seconds, BLOCK)
        finally:
            for worker in workers.values():
                worker.close()
    if row == "py-spy record":  # it holds one step in several
        return compare(switching(step, PySpy().switch), seconds, LONG_BLOCK, mean)
    switches: dict[str, Callable[[str], object]] = {
        "nothing (command)": lambda _: (command("--version"), time.sleep(0.03)),
        "idle": enter_and_leave,
        "torch.profiler": Profiler().switch,
    }
    return compare(switching(step, switches[row]), seconds, LONG_BLOCK)


def percents(one: Ratio) -> list[float]:
    return [(value - 1) * 100 for value in (one.middle, *one.interval())]


def show(row: str, ratios: dict[str, Ratio], note: str) -> None:
    texts = ["{:+8.3f} % ({:+.3f} … {:+.3f})".format(*percents(one)) for one in ratios.values()]
    print(f"  {row:38} {'   '.join(f'{text:32}' for text in texts)} {note}", flush=True)


def verdict(model: str, row: str, ratios: dict[str, Ratio]) -> str:
    most = BOUNDS.get(model, {}).get(row)
    if most is None:
        return ""
    highest = percents(ratios["cpu"])[2]
    return f"{'within' if highest <= most else 'NOT SHOWN to be within'} {most:g} %"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=40, help="for each row")
    parser.add_argument("--rows", default="", help="some of them, by how they begin: idle,every")
    parser.add_argument("models", nargs="*", default=list(MODELS))
    args = parser.parse_args()
    # First those that need the probe to be elsewhere: it does not leave a process that has loaded it.
    rows = [one for one in [*IDLE, *PEERS, *SET, *TOGGLED] if one.startswith(tuple(args.rows.split(",")))]
    rows = [one for one in rows if has_py_spy() or one != "py-spy record"]
    rows = [one for one in rows if has_pypi() or one not in PYPI]
    prepare()
    sys.path.insert(0, str(ROOT / "python"))
    os.environ["PROBING_LIBRARY"] = str(ROOT / "build/release/bin/libprobing.so")
    steps = {name: trainer(name) for name in args.models}
    for step in steps.values():
        warm(step)
    found: dict[str, dict[str, dict[str, Ratio]]] = {name: {} for name in steps}
    accounted: dict[str, float] = {}
    print(f"  {'':38} {'CPU time':35}{'time that passes':35}")
    for row in rows:
        for name, step in steps.items():
            # Others cost so much that it shows sooner; longer steps are fewer.
            seconds = args.seconds * LONGER.get(name, 1) / (3 if row in PEERS else 1)
            ratios, fours = measure(row, name, step, seconds)
            found[name][row] = ratios
            show(f"{name}: {row}", ratios, f"{fours} fours  {verdict(name, row, ratios)}")
            if row == "idle":
                command("-t", str(os.getpid()), "inject")
                accounted[name] = share_of_probe(step, min(args.seconds, 10)) * 100
                command("-t", str(os.getpid()), "eject")
                print(f"  {name}: idle, CPU time of the probe's threads {accounted[name]:.4f} %", flush=True)
    for name, known in found.items():
        for row, ratios in calculated(known, steps[name]).items():
            known[row] = ratios
            show(f"{name}: {row}", ratios, f"calculated  {verdict(name, row, ratios)}")
    save(found, accounted)
    promises = Promises()
    for name, known in found.items():
        for row, most in BOUNDS.get(name, {}).items():
            if row in known:
                promises.at_most(f"{name}: {row}, upper end", percents(known[row]["cpu"])[2], most, "%")
    return promises.exit_code()


def calculated(known: dict[str, dict[str, Ratio]], step: Callable[[], None]) -> dict[str, dict[str, Ratio]]:
    rows = {}
    between, every, exprs = (known.get(row) for row in ("between traced steps", "every step", "with 2 exprs"))
    if between and every:
        share = traced_share(step)
        print(f"  the default traces {share:.4f} of the steps", flush=True)
        rows["default"] = {clock: between[clock].mixed(every[clock], share) for clock in CLOCKS}
    if between and exprs:
        rows["2 exprs more"] = {clock: exprs[clock].over(between[clock]) for clock in CLOCKS}
    return rows


def save(found: dict[str, dict[str, dict[str, Ratio]]], accounted: dict[str, float]) -> None:
    folder = ROOT / "bench/results"
    folder.mkdir(exist_ok=True)
    about = {"torch": torch.__version__, "python": platform.python_version(), "cpus": os.cpu_count()}
    results = {
        name: {row: {clock: percents(one) for clock, one in ratios.items()} for row, ratios in known.items()}
        for name, known in found.items()
    }
    content = {"about": about, "bounds": BOUNDS, "results": results, "idle_threads_percent": accounted}
    path = folder / time.strftime("torch_steps-%Y%m%d-%H%M%S.json")
    path.write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    sys.exit(main())
