"""Rows that Python code writes, and what the probe writes for it: in the rings exactly as given."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli, Target, wait_until

StartTarget = Callable[..., Target]
PACKAGE = str(harness.ROOT / "python")
BIG = "x" * (1 << 20)

# Without the package around it, which would put a probe into this process.
_spec = importlib.util.spec_from_file_location("probing_control", f"{PACKAGE}/probing/_control.py")
assert _spec is not None and _spec.loader is not None
_control = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_control)


def run(target: StartTarget, scenario: str, *more: object, **options: Any) -> Target:
    """A program that imports the package; PROBING_LIBRARY tells it which library."""
    options.setdefault("PROBING_LIBRARY", str(harness.BIN / "libprobing.so"))
    return target("tables", scenario, PACKAGE, *more, **options)


def dump_lines(pid: int, *words: object) -> list[dict[str, Any]]:
    wait_until(lambda: harness.probe_socket(pid), 10, f"process {pid} has a probe")
    command = [str(harness.BIN / "ring_dump"), str(pid), *map(str, words)]
    done = subprocess.run(command, capture_output=True, timeout=20)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def rows_of(pid: int, table: str) -> list[dict[str, Any]]:
    """The rows of a table, oldest first, without their times."""
    rows = [line["row"] for line in dump_lines(pid) if line["table"] == table and "row" in line]
    now = time.time_ns()
    for row in rows:
        assert now - 120 * 10**9 < row.pop("timestamp") <= now, "rows are stamped when they are written"
    return rows


def counters_of(pid: int, table: str) -> dict[str, Any]:
    [line] = [line for line in dump_lines(pid) if line["table"] == table and "row" not in line]
    return line


def evaluate(probing: Cli, pid: int, code: str) -> str:
    return probing("-t", pid, "eval", code).expect(0).stdout.strip()


def hooked(probing: Cli, pid: int) -> bool:
    return "gc_event" in evaluate(probing, pid, "import gc; print(gc.callbacks)")


def wrapped(probing: Cli, pid: int, expression: str) -> bool:
    return evaluate(probing, pid, f"import sys; print(hasattr({expression}, '__wrapped__'))") == "True"


def maps_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/maps").read_text().splitlines()


def mapped(pid: int) -> bool:
    return any("libprobing" in line for line in maps_of(pid))


def wait_until_unmapped(job: harness.Target, python: str) -> None:
    if harness.has_gil(python):
        wait_until(lambda: not mapped(job.pid), 30, "the library is gone")


def configure(pid: int, name: str, value: str) -> None:
    path = wait_until(lambda: harness.probe_socket(pid), 30, "the probe has a socket")
    _control.ask(str(path), "config", (f"set:{name}", value))


# ── values ───────────────────────────────────────────────────────────────────────────────────


def test_values_come_out_exactly_as_they_went_in(target: StartTarget, python: str) -> None:
    job = run(target, "exact", python=python)
    rows = rows_of(job.pid, "python.exact")
    assert rows[0] == {"i": 0, "d": 0.0, "b": False, "s": "", "y": {"hex": ""}}
    assert rows[1] == {"i": 2**63 - 1, "d": 1e308, "b": True, "s": "😀 é \0 \n \"'", "y": {"hex": "00ff"}}
    assert rows[2]["i"] == -(2**63)
    assert math.isnan(rows[2]["d"])
    assert (rows[2]["b"], rows[2]["s"], rows[2]["y"]) == (None, "same", None)
    assert rows[3] == {"i": None, "d": math.inf, "b": True, "s": None, "y": {"hex": b"same".hex()}}
    assert math.copysign(1, rows[4]["d"]) == -1
    assert (rows[4]["s"], rows[4]["y"]["hex"]) == (BIG, BIG.encode().hex())
    assert rows[5] == dict.fromkeys("idbsy")
    assert rows[6:] == [
        {"i": n, "d": float(n), "b": n % 2 == 0, "s": str(n), "y": {"hex": ""}} for n in range(100)
    ]
    assert counters_of(job.pid, "python.exact")["written"] == 106
    job.expect_unharmed()


def test_a_value_that_does_not_fit_is_an_error_with_its_column(target: StartTarget, python: str) -> None:
    job = run(target, "errors", python=python)
    assert rows_of(job.pid, "python.picky") == []
    [row] = rows_of(job.pid, "python.metrics")
    assert row["text"].splitlines() == [
        "OverflowError: column 'number' takes 64-bit integers; this one is larger",
        "TypeError: column 'number' takes an int, not str",
        "TypeError: column 'number' takes an int, not float",
        "TypeError: column 'real' takes a float, not str",
        "OverflowError: column 'real' takes floats; this int is larger than any",
        "ValueError: column 'flag' takes True, False, 0 or 1",
        "TypeError: column 'text' takes a str, not int",
        "TypeError: column 'text' takes a str, not bytes",
        "TypeError: column 'raw' takes bytes, not str",
        f"ValueError: column 'text' takes values of up to 16 MB, not of {17 << 20} bytes or more",
        "ValueError: the table 'python.picky' exists already, with other columns"
        " (choose another name; rows that were written keep their columns)",
    ]


def test_logs_spans_and_events_become_rows(target: StartTarget, python: str) -> None:
    job = run(target, "words", python=python)
    metrics = rows_of(job.pid, "python.metrics")
    common = {"source": "log", "epoch": 3, "step": 42}
    later = {"source": "log", "epoch": None, "step": 43}
    first, second = metrics[0]["row"], metrics[2]["row"]
    assert first != second
    assert metrics == [
        common | {"row": first, "name": "loss", "value": 0.5, "text": None},
        common | {"row": first, "name": "note", "value": None, "text": "warm"},
        later | {"row": second, "name": "loss", "value": 1.0, "text": None},
        later | {"row": second, "name": "accuracy", "value": 1.0, "text": None},
    ]
    spans = rows_of(job.pid, "python.spans")
    # Without torch what probing.step() ends is a row, too.
    (step,) = [row for row in spans if row["name"] == "step"]
    assert (step["kind"], step["step"], step["parent"]) == ("span", 41, None) and step["duration_ms"] >= 0
    event, inner, outer = [row for row in spans if row is not step]
    assert (event["name"], event["kind"], event["duration_ms"]) == ("checkpoint", "event", None)
    assert json.loads(event["attributes"]) == {"path": "a", "size": 3}
    assert (inner["name"], inner["parent"], inner["attributes"]) == ("inner", outer["span"], '{"part": 1}')
    assert (outer["name"], outer["parent"], outer["step"]) == ("outer", None, 42)
    assert 0 <= inner["duration_ms"] <= outer["duration_ms"] < 60_000
    assert event["tid"] == inner["tid"] == job.pid
    job.expect_unharmed()


def test_the_number_of_rows_can_be_changed_while_rows_are_written(target: StartTarget) -> None:
    code = "import probing; [probing.log(n=i) for i in range(3000)]"
    job = run(target, "nothing", code, PROBING_TABLE_ROWS="500")
    rows = rows_of(job.pid, "python.metrics")
    assert 500 <= len(rows) < 3000
    assert [row["value"] for row in rows] == [float(n) for n in range(3000 - len(rows), 3000)]
    counters = counters_of(job.pid, "python.metrics")
    assert (counters["written"], counters["overwritten"]) == (3000, 3000 - len(rows))


# ── ways in ──────────────────────────────────────────────────────────────────────────────────


def test_without_a_library_the_program_runs_and_nothing_is_stored(tmp_path: Path) -> None:
    code = "import probing; assert not probing.is_active(); print(probing.log(x=1), probing.event('e'))"
    environment = harness.clean_environment(PROBING_LIBRARY=str(tmp_path / "none.so"), PYTHONPATH=PACKAGE)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False False\n", "")


def test_the_package_finds_a_probe_that_was_injected(probing: Cli, target: StartTarget, python: str) -> None:
    job = run(target, "nothing", python=python)
    probing("-t", job.pid, "inject").expect(0)
    code = "import probing; print(probing.log(loss=2), probing.is_active())"
    assert evaluate(probing, job.pid, code) == "True True"
    assert [row["value"] for row in rows_of(job.pid, "python.metrics")] == [2.0]


def test_the_package_finds_a_probe_that_was_preloaded(probing: Cli, target: StartTarget) -> None:
    job = run(target, "words", LD_PRELOAD=str(harness.BIN / "libprobing.so"))
    assert len(rows_of(job.pid, "python.metrics")) == 4
    code_of = [line for line in maps_of(job.pid) if "libprobing" in line and line.split()[1] == "r-xp"]
    assert len(code_of) == 1, f"the one that was preloaded, and no second one beside it: {code_of}"
    code = "import probing; probing.log(loss=9)"
    assert evaluate(probing, job.pid, code) == "True"
    assert len(rows_of(job.pid, "python.metrics")) == 5, "it is the one that answers"


# ── fork, death, eject ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("nested", [False, True])
def test_a_forked_child_writes_into_its_own_rings_or_nowhere(
    target: StartTarget, python: str, nested: bool
) -> None:
    options = {"PYTHONWARNINGS": "ignore::DeprecationWarning", "PROBING_NESTED": str(int(nested))}
    parent = run(target, "fork", python=python, **options)
    child = parent.report()["children"]
    try:
        assert rows_of(parent.pid, "python.family") == [
            {"who": "parent", "number": 0},
            {"who": "parent", "number": 2},
        ]
        if nested:
            assert rows_of(child, "python.family") == [{"who": "child", "number": 1}]
        else:
            # It may not have run at all yet.
            links = lambda: " ".join(harness.open_files(child).values())  # noqa: E731
            wait_until(lambda: "probing" not in links(), 30, "the child closes its parent's rings")
            assert "probing-ring" not in Path(f"/proc/{child}/maps").read_text()
    finally:
        os.kill(child, 9)


def test_rows_outlive_their_target_for_whoever_has_the_rings(target: StartTarget) -> None:
    job = run(target, "words")
    command = [str(harness.BIN / "ring_dump"), str(job.pid), "hold"]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"ready\n"
    job.kill()
    output, _ = holder.communicate(timeout=20)
    lines = [json.loads(line) for line in output.splitlines()]
    assert sum(line["table"] == "python.metrics" and "row" in line for line in lines) == 4


def test_eject_keeps_code_that_the_program_still_has(probing: Cli, target: StartTarget, python: str) -> None:
    job = run(target, "nothing", python=python)
    probing("-t", job.pid, "inject").expect(0)
    evaluate(probing, job.pid, "import probing, sys; sys.kept = probing._record; print(probing.log(x=1))")
    answer = probing("-t", job.pid, "eject").expect(0)
    assert "functions" in answer.stdout + answer.stderr
    wait_until(lambda: harness.probe_socket(job.pid) is None, 30, "the socket is gone")
    if harness.has_gil(python):
        assert "probing-ring" not in " ".join(harness.open_files(job.pid).values())
    job.expect_progress()
    # A second probe comes; what the program has finds it.
    probing("-t", job.pid, "inject").expect(0)
    time.sleep(1)  # the package looks at most once a second
    assert evaluate(probing, job.pid, "import sys; print(sys.kept.log(x=2))") == "True"
    assert [row["value"] for row in rows_of(job.pid, "python.metrics")] == [2.0]


# ── hooks ────────────────────────────────────────────────────────────────────────────────────


def test_collections_and_uncaught_errors_are_noted(probing: Cli, target: StartTarget, python: str) -> None:
    job = run(target, "hooks", "import probing", python=python, PROBING_PYTHON_MEMORY_INTERVAL="0.1")
    collections = [row for row in rows_of(job.pid, "python.gc") if row["generation"] == 2]
    assert len(collections) >= 3
    assert all(row["duration_ms"] > 0 and row["uncollectable"] == 0 for row in collections)
    types = lambda: [row["type"] for row in rows_of(job.pid, "python.exceptions")]  # noqa: E731
    wait_until(lambda: "KeyError" in types(), 20, "the last exception is found")
    exceptions = rows_of(job.pid, "python.exceptions")
    assert exceptions[-1]["type"] == "KeyError"
    assert exceptions[-1]["message"] == "'uncaught'"
    assert '{}["uncaught"]' in exceptions[-1]["traceback"]
    assert exceptions[-1]["tid"] == job.pid
    minor = harness.version_of(python)[1]
    kinds = [row["type"] for row in exceptions]
    assert kinds == (["ZeroDivisionError", "KeyError"] if minor >= 8 else ["KeyError"]), "threads since 3.8"


def test_hooks_are_gone_without_a_trace_after_eject(probing: Cli, target: StartTarget, python: str) -> None:
    job = run(target, "nothing", python=python)
    wanted = 2 if harness.version_of(python)[1] >= 8 else 1  # gc.callbacks, threading.excepthook
    probing("-t", job.pid, "inject").expect(0)
    wait_until(lambda: job.report()["hooked"] == wanted, 30, "the hooks are in place")
    probing("-t", job.pid, "eject").expect(0)
    wait_until_unmapped(job, python)
    wait_until(lambda: job.report()["hooked"] == 0, 30, "nothing is left in the interpreter")
    job.expect_progress()


@pytest.mark.parametrize("how", ["import", "preload"])
def test_a_program_that_ends_at_once_ends_well(python: str, how: str) -> None:
    """A thread that asks for the GIL while Python is taken apart brings the process down."""
    library = str(harness.BIN / "libprobing.so")
    environment = harness.clean_environment(PROBING_LIBRARY=library, PYTHONPATH=PACKAGE)
    if how == "preload":
        environment["LD_PRELOAD"] = library
    for pause in (0, 0.005, 0.01, 0.012, 0.015, 0.02, 0.03, 0.05):
        code = (
            f"import time; {'import probing; ' if how == 'import' else ''}time.sleep({pause}); print('end')"
        )
        command = [str(harness.pythons()[python]), "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)
        assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_hooks_can_be_switched_on_and_off(probing: Cli, target: StartTarget) -> None:
    job = run(target, "nothing", "import probing", PROBING_PYTHON_HOOKS="none")
    configure(job.pid, "probing.python.hooks", "gc")
    wait_until(lambda: hooked(probing, job.pid), 30, "the hook comes when it is asked for")
    same = "import sys; print(sys.excepthook is sys.__excepthook__)"
    assert evaluate(probing, job.pid, same) == "True", "only what is asked for"
    configure(job.pid, "probing.python.hooks", "none")
    wait_until(lambda: not hooked(probing, job.pid), 30, "and goes")
    job.expect_unharmed()


# ── loggers ──────────────────────────────────────────────────────────────────────────────────

TENSORBOARD = """
class SummaryWriter(object):
    def __init__(self, log_dir=None):
        self.calls = []

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False):
        self.calls.append((tag, scalar_value, global_step))
        if tag == "bad":
            raise ValueError("bad")
        return "scalar"

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        self.calls.append((main_tag, tag_scalar_dict, global_step))
"""

WANDB_RUN = """
class Run(object):
    def __init__(self):
        self.step = 0
        self.logged = []

    def log(self, data, step=None, commit=None, sync=None):
        self.logged.append((dict(data), step))
        if step is None and commit is not False:
            self.step += 1
"""

WANDB = """
from .sdk.wandb_run import Run
run = None
log = None

def init(**options):
    global run, log
    run = Run()
    log = run.log
    return run
"""


def install_loggers(folder: Path) -> None:
    """Modules that are called as the real ones are."""
    for name, source in [
        ("torch/__init__.py", ""),
        ("torch/utils/__init__.py", ""),
        ("torch/utils/tensorboard/__init__.py", "from .writer import SummaryWriter\n"),
        ("torch/utils/tensorboard/writer.py", TENSORBOARD),
        ("tensorboardX/__init__.py", TENSORBOARD),
        (
            "wandb/__init__.py",
            "from .sdk.wandb_run import Run\n" + WANDB.replace("class Run", "class _Unused"),
        ),
        ("wandb/sdk/__init__.py", ""),
        ("wandb/sdk/wandb_run.py", WANDB_RUN),
    ]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)


def metrics(pid: int) -> list[tuple[Any, ...]]:
    rows = rows_of(pid, "python.metrics")
    return [tuple(row.values()) for row in rows]


@pytest.mark.parametrize("module", ["torch.utils.tensorboard", "tensorboardX"])
def test_what_tensorboard_logs_is_a_metric(
    probing: Cli, target: StartTarget, tmp_path: Path, python: str, module: str
) -> None:
    install_loggers(tmp_path)
    job = run(target, "nothing", python=python, PYTHONPATH=str(tmp_path))
    probing("-t", job.pid, "inject").expect(0)
    evaluate(
        probing, job.pid, f"import sys; from {module} import SummaryWriter; sys.writer = SummaryWriter()"
    )
    wait_until(lambda: wrapped(probing, job.pid, "type(sys.writer).add_scalar"), 30, "the writer is wrapped")
    script = """
import sys
w = sys.writer
assert w.add_scalar("loss", 0.5, 10) == "scalar"
w.add_scalar("acc", scalar_value=1, global_step=10)
w.add_scalars("lr", {"a": 0.1, "b": 0.2}, 11)
w.add_scalar("image", [1, 2], 11)
try:
    w.add_scalar("bad", 1, 12)
except ValueError as error:
    print(error, w.calls[0], len(w.calls))
"""
    assert evaluate(probing, job.pid, script) == "bad ('loss', 0.5, 10) 5"
    rows = metrics(job.pid)
    first, second = rows[0][1], rows[2][1]
    assert first != second
    assert rows == [
        ("tensorboard", first, None, 10, "loss", 0.5, None),
        ("tensorboard", first, None, 10, "acc", 1.0, None),
        ("tensorboard", second, None, 11, "lr/a", 0.1, None),
        ("tensorboard", second, None, 11, "lr/b", 0.2, None),
    ]
    # The program has kept a bound method; it goes on working when we are gone.
    evaluate(probing, job.pid, "import sys; sys.kept = sys.writer.add_scalar")
    probing("-t", job.pid, "eject").expect(0)
    wait_until_unmapped(job, python)
    probing("-t", job.pid, "inject").expect(0)
    again = "import sys; print(sys.kept('loss', 1.0, 13), len(sys.writer.calls))"
    assert evaluate(probing, job.pid, again) == "scalar 6"


def test_what_wandb_logs_is_a_metric(probing: Cli, target: StartTarget, tmp_path: Path, python: str) -> None:
    install_loggers(tmp_path)
    job = run(target, "nothing", "import wandb; wandb.init()", python=python, PYTHONPATH=str(tmp_path))
    probing("-t", job.pid, "inject").expect(0)
    wait_until(
        lambda: wrapped(probing, job.pid, "__import__('wandb').log"), 10, "a run from before is wrapped"
    )
    script = """
import wandb
wandb.log({"epoch": 2, "loss": 0.5, "_private": 1})
wandb.log({"val": {"loss": 0.25}, "phase": "eval", "table": object()}, commit=False)
wandb.log({"more": 1})
wandb.run.log({"late": 7}, step=100)
print(len(wandb.run.logged), wandb.run.step)
"""
    assert evaluate(probing, job.pid, script) == "4 2"
    rows = metrics(job.pid)
    one, two, three = rows[0][1], rows[1][1], rows[4][1]
    assert len({one, two, three}) == 3
    assert rows == [
        ("wandb", one, 2, 0, "loss", 0.5, None),
        ("wandb", two, None, 1, "val.loss", 0.25, None),
        ("wandb", two, None, 1, "phase", None, "eval"),
        ("wandb", two, None, 1, "more", 1.0, None),
        ("wandb", three, None, 100, "late", 7.0, None),
    ]


def test_what_loggers_log_is_in_training_logs(probing: Cli, target: StartTarget, tmp_path: Path) -> None:
    """Without a change of the job: the columns are named as the job names its metrics."""
    install_loggers(tmp_path)
    code = "import wandb, tensorboardX, sys; wandb.init(); sys.writer = tensorboardX.SummaryWriter()"
    job = run(target, "nothing", code, PYTHONPATH=str(tmp_path))
    probing("-t", job.pid, "inject").expect(0)
    wait_until(lambda: wrapped(probing, job.pid, "__import__('wandb').log"), 10, "wandb is wrapped")
    wait_until(lambda: wrapped(probing, job.pid, "type(sys.writer).add_scalar"), 10, "the writer, too")
    script = """
import sys, wandb
for step in range(3):
    sys.writer.add_scalar("loss", 1 / (step + 1), step)
    sys.writer.add_scalar("train/acc", step / 4, step)
    wandb.log({"epoch": step // 2, "loss": step * 2.0, "note": "step %d" % step}, step=step)
"""
    evaluate(probing, job.pid, script)

    def ask(sql: str) -> list[dict[str, Any]]:
        return probing("-t", job.pid, "query", "-f", "json", sql).expect(0).json

    columns = 'source, epoch, step, loss, "train/acc" AS acc, note'
    assert ask(f"SELECT {columns} FROM training_logs WHERE step > 0 ORDER BY source, step") == [
        {"source": "tensorboard", "epoch": None, "step": 1, "loss": 0.5, "acc": 0.25, "note": None},
        {"source": "tensorboard", "epoch": None, "step": 2, "loss": 1 / 3, "acc": 0.5, "note": None},
        {"source": "wandb", "epoch": 0, "step": 1, "loss": 2.0, "acc": None, "note": "step 1"},
        {"source": "wandb", "epoch": 1, "step": 2, "loss": 4.0, "acc": None, "note": "step 2"},
    ]
    by_epoch = "SELECT epoch, avg(loss) AS mean, min(loss) AS best, count(*) AS steps FROM training_logs"
    assert ask(f"{by_epoch} WHERE source = 'wandb' GROUP BY epoch ORDER BY epoch") == [
        {"epoch": 0, "mean": 1.0, "best": 0.0, "steps": 2},
        {"epoch": 1, "mean": 4.0, "best": 4.0, "steps": 1},
    ]


# ── live tables ──────────────────────────────────────────────────────────────────────────────


def live(pid: int, table: str, *columns: str) -> subprocess.CompletedProcess[str]:
    command = [str(harness.BIN / "ring_dump"), str(pid), "live", table, *columns]
    return subprocess.run(command, capture_output=True, text=True, timeout=20)


def live_bytes(pid: int, table: str, *columns: str) -> bytes:
    done = live(pid, table, *columns)
    assert done.returncode == 0, done.stderr
    return bytes.fromhex(done.stdout.strip())


NAPPER = "threading.Thread(target=time.sleep, args=(99,), daemon=True, name='napper').start()"


def test_live_tables_are_made_when_asked_for(probing: Cli, target: StartTarget, python: str) -> None:
    job = run(target, "nothing", NAPPER, python=python)
    probing("-t", job.pid, "inject").expect(0)
    assert b"napper" in live_bytes(job.pid, "python.threads", "name", "ident")
    imports = live_bytes(job.pid, "python.imports", "name")
    assert b"threading" in imports
    assert b"probing" not in imports
    assert b"threading.py" in live_bytes(job.pid, "python.imports", "name", "file")
    assert "columns" in live(job.pid, "python.imports", "nonsense").stderr
    assert "python.nonsense" in live(job.pid, "python.nonsense", "name").stderr
    job.expect_unharmed()
