"""Tracing of PyTorch itself, where build/torch-venv has it; test_torch_tracing.py needs none."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli, Target, wait_until

StartTarget = Callable[..., Target]
TORCH = harness.ROOT / "build/torch-venv/bin/python"
SETTING = "probing.torch.profiling"

pytestmark = [
    pytest.mark.skipif(
        not TORCH.exists(), reason="needs torch in build/torch-venv (tools/install_deps.sh torch, 1 GB)"
    ),
    pytest.mark.slow(240),  # importing torch takes seconds, on a machine that has nothing else to do
]


def ask(probing: Cli, pid: int, sql: str) -> list[dict[str, Any]]:
    return json.loads(probing("-t", pid, "query", "-f", "json", sql).expect(0).stdout)


def preloaded(target: StartTarget, kind: str, spec: str, *more: object) -> Target:
    """A job that is traced from its first step on."""
    library = str(harness.BIN / "libprobing.so")
    return target(
        "torch_kinds", kind, *more, python=str(TORCH), LD_PRELOAD=library, PROBING_TORCH_PROFILING=spec
    )


def start(forked: StartTarget, kind: str, spec: str = "full", *more: object) -> Target:
    """One that runs already when it is entered and told to trace."""
    job, probing = forked("torch_kinds", kind, *more), Cli(harness.BIN)
    probing("-t", job.pid, "inject").expect(0)
    probing("-t", job.pid, "config", f"{SETTING}={spec}").expect(0)
    return job


def traced(probing: Cli, job: Target, least: int = 2) -> list[list[tuple[str, str]]]:
    """(module, stage) of the calls of steps that were traced in full: not of the oldest, which may have
    been overwritten in part, nor of the last, which may still be written."""
    sql = "SELECT step, module, stage FROM python.torch_trace ORDER BY step, seq"

    def enough() -> list[list[tuple[str, str]]] | None:
        found: dict[int, list[tuple[str, str]]] = {}
        for row in ask(probing, job.pid, sql):
            found.setdefault(row["step"], []).append((row["module"], row["stage"]))
        return list(found.values())[1:-1] if len(found) >= least + 2 else None

    return wait_until(enough, 40, "steps are traced")


PLAIN = [("Sequential", "forward"), ("0", "forward"), ("1", "forward"), ("2", "forward")]
BACK = [("Sequential", "backward"), ("2", "backward"), ("1", "backward"), ("0", "backward")]


def test_a_training_is_traced(probing: Cli, target: StartTarget) -> None:
    job = preloaded(target, "plain", "full")
    assert traced(probing, job)[0] == [*PLAIN, ("AdamW", "step"), *BACK]
    [sums] = ask(
        probing,
        job.pid,
        "SELECT min(forward) AS forward, min(backward) AS backward, min(optimizer) AS optimizer,"
        " min(duration - forward - backward - optimizer) AS other FROM python.torch_steps",
    )
    assert all(value > 0 for value in sums.values()), sums
    job.expect_progress("steps")


def test_what_is_computed_is_the_same_bit_by_bit(
    probing: Cli, target: StartTarget, forked: StartTarget
) -> None:
    alone = forked("torch_kinds", "fixed", "600")
    watched = preloaded(target, "fixed", "full", "600")
    switched = forked("torch_kinds", "fixed", "600")
    probing("-t", switched.pid, "inject").expect(0)
    while switched.report()["checksum"] == 0:
        for spec in ("full", "off", "on,rate=0.5,exprs=loss@plain"):
            probing("-t", switched.pid, "config", f"{SETTING}={spec}").expect(0)
            switched.reset("alive")
    jobs = [alone, watched, switched]
    wait_until(lambda: all(job.report()["checksum"] for job in jobs), 40, "all have trained")
    assert len({job.report()["checksum"] for job in jobs}) == 1
    assert ask(probing, watched.pid, "SELECT count(*) AS n FROM python.torch_trace")[0]["n"] > 1000


def test_passes_that_make_one_step_together(probing: Cli, forked: StartTarget) -> None:
    job = start(forked, "accumulate")
    stages = [stage for _, stage in traced(probing, job)[1]]
    # Checkpoints run the first half of the forward pass a second time, within backward.
    assert stages.count("forward") >= 4 * 3
    assert stages.count("step") == 1
    job.expect_progress("steps")


def test_a_module_that_is_called_twice_is_counted_twice(probing: Cli, forked: StartTarget) -> None:
    job = start(forked, "shared")
    calls = traced(probing, job)[1]
    assert calls.count(("layer", "forward")) == 2
    assert calls.count(("layer", "backward")) == 2
    assert calls.count(("head", "forward")) == 1
    job.expect_progress("steps")


def test_several_models_and_optimizers(probing: Cli, forked: StartTarget) -> None:
    job = start(forked, "several")
    steps = traced(probing, job, 200)[
        10:
    ]  # backward takes turns; in the first ones it is learnt what ends a step
    # Both optimizers once: from one step of the last one to its next.
    trained = next(
        calls
        for calls in steps
        if ("DataParallel", "forward") in calls and ("Teacher", "forward") not in calls
    )
    forward = ["DataParallel", "module", "module.0", "module.1"]
    assert [trained.count((name, "forward")) for name in forward] == [1, 1, 1, 1]
    assert trained.count(("Critic", "forward")) == 3
    assert [trained.count((name, "step")) for name in ("Adam", "SGD")] == [1, 1]
    everything = {call for calls in steps for call in calls}
    assert everything >= {(name, "backward") for name in ("Critic", *forward)}
    sql = "SELECT phase, count(*) AS n, count(DISTINCT step) AS steps FROM python.torch_steps GROUP BY phase"
    phases = {row["phase"]: row for row in ask(probing, job.pid, sql)}
    assert set(phases) == {"train", "infer"}, "a model that only answers does not train"
    assert phases["train"]["n"] == phases["train"]["steps"]
    assert phases["infer"]["n"] >= 4 * phases["infer"]["steps"], "without gradients each call is a row"
    sql = (
        "SELECT module FROM python.torch_trace WHERE phase = 'infer' AND stage = 'forward' ORDER BY step, seq"
    )
    answered = [row["module"] for row in ask(probing, job.pid, sql)]
    assert abs(answered.count("Teacher") - answered.count("0")) <= 1 < answered.count("0")
    job.expect_progress("steps")


def test_steps_within_one_call_are_traced(probing: Cli, target: StartTarget) -> None:
    job = preloaded(target, "within", "on,rate=0.5")
    for calls in traced(probing, job, 60):  # of 50 steps all begin within the call but one
        assert [stage for _, stage in calls].count("forward") == 4, calls
    job.expect_progress("steps")


def test_every_module_has_its_backward_wherever_its_output_was(probing: Cli, forked: StartTarget) -> None:
    job = start(forked, "residual")
    seen = set()
    for calls in traced(probing, job, 60)[1:]:
        forward = [name for name, stage in calls if stage == "forward"]
        backward = [name for name, stage in calls if stage == "backward"]
        assert len(forward) == len(set(forward)) == 1 + 4 * 4 + 1
        assert len(backward) == len(set(backward))
        seen |= set(backward)
    assert seen == set(forward), "they take turns"
    job.expect_progress("steps")


def test_a_model_that_only_answers(probing: Cli, forked: StartTarget) -> None:
    job = start(forked, "answering")
    assert traced(probing, job)[-1] == [("Teacher", "forward"), *PLAIN[1:]]
    sql = (
        "SELECT min(forward) AS least, max(backward) AS backward, max(duration) AS longest"
        " FROM python.torch_steps"
    )
    [row] = ask(probing, job.pid, sql)
    assert 0 < row["least"] <= row["longest"] and row["backward"] == 0
    job.expect_progress("steps")


def test_an_exception_in_a_model_is_the_models(probing: Cli, forked: StartTarget) -> None:
    job = start(forked, "raising")
    traced(probing, job)
    job.expect_progress("steps")
    assert job.report()["wrong"] == 0


def test_nothing_keeps_a_model_alive(probing: Cli, forked: StartTarget) -> None:
    job = start(forked, "deleted")
    traced(probing, job, 10)
    for spec in ("off", "full", "on"):
        probing("-t", job.pid, "config", f"{SETTING}={spec}").expect(0)
        job.expect_progress("steps")
        assert job.report()["alive"] == 0


def test_after_it_is_off_nothing_of_ours_refers_to_the_job(probing: Cli, forked: StartTarget) -> None:
    job = forked("torch_kinds", "held")
    probing("-t", job.pid, "inject").expect(0)

    def counted() -> int:
        """As the job counts it in a later step."""
        before = job.report()["steps"]
        wait_until(lambda: job.report()["steps"] > before + 20, 30, "it counts again")
        return job.report()["alive"]

    def is_plain() -> bool:
        """Whether a call of a module runs by the same C function as that of any other function: it costs
        what it costs without us."""
        code = """import ctypes, torch
def called_by(function, offset_of_offset=56):
    offset = ctypes.c_ssize_t.from_address(id(type(function)) + offset_of_offset).value
    return ctypes.c_void_p.from_address(id(function) + offset).value
called_by(torch.nn.Module.__call__) == called_by(called_by)"""
        return probing("-t", job.pid, "eval", code).expect(0).stdout.strip() == "True"

    alone = counted()
    assert is_plain()
    probing("-t", job.pid, "config", f"{SETTING}=full,nan=on,exprs=loss@held").expect(0)
    traced(probing, job)
    assert counted() > alone, "weak references tell us when modules go"
    assert not is_plain()
    probing("-t", job.pid, "config", f"{SETTING}=off").expect(0)
    wait_until(lambda: counted() == alone, 30, "it is as it was")
    assert is_plain()


def test_the_first_nan_and_the_module_it_came_from(probing: Cli, forked: StartTarget) -> None:
    job = start(forked, "diverging", "steps,nan=on")
    rows = wait_until(
        lambda: (
            len(r := ask(probing, job.pid, "SELECT * FROM python.nonfinite ORDER BY timestamp_ns")) > 2 and r
        ),
        30,
        "it diverges",
    )
    # Modules are not traced: the model's output is looked at, and the gradients.
    assert (rows[0]["module"], rows[0]["stage"], rows[0]["numbers"]) == ("Diverging", "forward", 8)
    assert rows[0]["nans"] + rows[0]["infs"] > 0
    assert {row["stage"] for row in rows[1:]} == {"gradient"}
    job.expect_progress("steps")
    probing("-t", job.pid, "config", f"{SETTING}=full,nan=on").expect(0)
    sql = "SELECT module, stage, infs, numbers FROM python.nonfinite WHERE module = 'middle'"
    [middle, *_] = wait_until(lambda: ask(probing, job.pid, sql), 20, "the module is named")
    assert (middle["stage"], middle["numbers"]) == ("forward", 8 * 32)
    sql = "SELECT DISTINCT module FROM python.nonfinite WHERE stage = 'gradient' ORDER BY 1"
    wait_until(
        lambda: "last.weight" in [row["module"] for row in ask(probing, job.pid, sql)], 20, "and parameters"
    )


def test_tensors_with_numbers_that_are_none(probing: Cli, forked: StartTarget) -> None:
    job = start(forked, "diverging", "off")
    sql = "SELECT name, nonfinite, grad_norm FROM python.tensors WHERE name = 'last.weight'"

    def diverged() -> dict[str, Any] | None:
        rows = ask(probing, job.pid, sql)
        return rows[0] if rows and rows[0]["nonfinite"] else None

    assert wait_until(diverged, 30, "its parameters are NaN")["nonfinite"] == 32
    assert ask(probing, job.pid, "SELECT count(nonfinite) AS n FROM python.tensors")[0]["n"] > 4


def test_a_thread_that_trains_in_the_background(probing: Cli, forked: StartTarget) -> None:
    job = start(forked, "background")
    assert traced(probing, job)[0][:4] == PLAIN


def test_times_agree_with_those_of_torch_profiler(probing: Cli, target: StartTarget, tmp_path: Path) -> None:
    answer = tmp_path / "profile.json"
    job = preloaded(target, "profiled", "full", answer)
    wait_until(answer.exists, 60, "torch.profiler has answered")
    answer = json.loads(answer.read_text())
    said = answer["said"]
    sql = (
        "SELECT module, stage, sum(duration) * 1e6 AS us, count(*) AS calls FROM python.torch_trace"
        f" WHERE epoch(timestamp) BETWEEN {answer['begin']} AND {answer['end']} AND module_type = 'Labelled'"
        " GROUP BY ALL"
    )
    rows = wait_until(lambda: len(r := ask(probing, job.pid, sql)) == 8 and r, 20, "they are written")
    assert {row["calls"] for row in rows} <= {9, 10}, "the first step began before the profiler did"
    calls = {(row["module"], row["stage"]): row["us"] * 10 / row["calls"] for row in rows}
    forward = [(calls[str(i), "forward"], said[f"layer {i}"]) for i in range(4)]
    assert sum(ours for ours, _ in forward) == pytest.approx(sum(theirs for _, theirs in forward), rel=0.05)
    # All of a layer's nodes: its product, the transposition of its weight, its parameters' gradients.
    nodes = [f"autograd::engine::evaluate_function: {kind}" for kind in ("AddmmBackward0", "TBackward0")]
    nodes.append("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad")
    ours = sum(calls[str(i), "backward"] for i in range(4))
    assert ours == pytest.approx(sum(said[node] for node in nodes), rel=0.1)


def test_compiled_code_is_left_alone(probing: Cli, forked: StartTarget) -> None:
    job = start(forked, "compiled")
    calls = traced(probing, job)[-1]
    assert ("OptimizedModule", "forward") in calls
    job.expect_progress("steps", 30)
    assert job.report()["wrong"] == 0


def test_workers_of_a_data_loader(probing: Cli, forked: StartTarget) -> None:
    job = start(forked, "loader")
    traced(probing, job)
    sql = "SELECT max(data_wait) AS waited FROM python.torch_steps"
    assert ask(probing, job.pid, sql)[0]["waited"] > 0
    job.expect_progress("steps")


def test_collectives_have_their_number_size_and_time(
    probing: Cli, forked: StartTarget, tmp_path: Path
) -> None:
    job = start(forked, "gloo", "steps", tmp_path / "store")
    # Those from before the probe came are torch's own records, which have no end on gloo.
    sql = "SELECT * FROM python.collectives WHERE source IS NULL ORDER BY timestamp_ns LIMIT 100"
    rows = wait_until(lambda: len(r := ask(probing, job.pid, sql)) >= 20 and r, 20, "collectives")
    reduced = [row for row in rows if row["op"] == "all_reduce"]
    assert {row["bytes"] for row in reduced} == {32 * 32 * 4, 32 * 4, 4}
    assert {(row["dtype"], row["state"]) for row in reduced} == {("float32", "completed")}
    assert all(row["duration_ms"] > 0 for row in reduced)
    numbers = [row["seq"] for row in rows]
    assert numbers == sorted(set(numbers)), "each has a number of its own"
    assert {row["state"] for row in rows if row["op"] == "broadcast"} == {"scheduled"}


def test_checkpoints_are_spans(probing: Cli, forked: StartTarget, tmp_path: Path) -> None:
    path = str(tmp_path / 'a "checkpoint".pt')
    job = start(forked, "saving", "on", path)
    sql = """SELECT step, duration_ms, attributes ->> '$.file' AS file FROM python.spans
             WHERE name = 'torch.save' ORDER BY timestamp_ns LIMIT 3"""
    rows = wait_until(lambda: len(r := ask(probing, job.pid, sql)) == 3 and r, 20, "checkpoints")
    assert {row["file"] for row in rows} == {path} and all(row["duration_ms"] > 0 for row in rows)
    assert len({row["step"] for row in rows}) == 3
    probing("-t", job.pid, "config", f"{SETTING}=off").expect(0)
    wait_until(lambda: job.report()["alive"] == 0, 10, "torch.save() is torch's own again")
    assert job.report()["wrong"] == 0


def test_everything_is_taken_out_in_the_middle_of_a_step(probing: Cli, forked: StartTarget) -> None:
    job = forked("torch_kinds", "plain")
    for _ in range(3):
        probing("-t", job.pid, "inject").expect(0)
        probing("-t", job.pid, "config", f"{SETTING}=full,exprs=loss@plain").expect(0)
        traced(probing, job)
        answer = probing("-t", job.pid, "eject").expect(0)
        assert "stays" not in answer.stdout + answer.stderr
        wait_until(lambda: not harness.is_probed(job.pid), 10, "nothing of the probe is left")
        job.expect_progress("steps")


def test_models_and_tensors_that_are_alive(probing: Cli, forked: StartTarget) -> None:
    job = start(forked, "plain", "off")
    modules = {row["name"]: row for row in ask(probing, job.pid, "SELECT * FROM python.modules")}
    assert set(modules) == {"Sequential", "0", "1", "2"}
    assert modules["0"]["parameters"] == 32 * 32 + 32
    assert (modules["2"]["type"], modules["2"]["dtype"], modules["2"]["device"]) == (
        "Linear",
        "float32",
        "cpu",
    )
    tensors = {row["name"]: row for row in ask(probing, job.pid, "SELECT * FROM python.tensors")}
    assert tensors["0.weight"]["shape"] == "[32, 32]"
    assert tensors["0.weight"]["bytes"] == 4096
    assert tensors["2.bias"]["holder"] == "Linear"
    job.expect_progress("steps")


def test_the_example_works_as_the_documents_say(probing: Cli, tmp_path: Path) -> None:
    """PROBING_TORCH_PROFILING="on,exprs=loss@train,acc1@train" PROBE=1 python examples/imagenet.py"""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import _probing_start\n_probing_start.start()\n")
    environment = harness.clean_environment(
        PROBE="1",
        PROBING_TORCH_PROFILING="on,exprs=loss@train,acc1@train",
        PROBING_LIBRARY=str(harness.BIN / "libprobing.so"),
        PYTHONPATH=os.pathsep.join([str(site), str(harness.ROOT / "python")]),
    )
    command = [str(TORCH), str(harness.ROOT / "examples/imagenet.py"), "--epochs", "100", "--images", "64"]
    job = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert job.stdout is not None
        for line in job.stdout:
            if b"Epoch: [1]" in line:
                break
        epochs = ask(
            probing,
            job.pid,
            "SELECT epoch, avg(loss) AS loss, max(acc1) AS acc1, count(*) AS steps"
            " FROM training_logs GROUP BY epoch ORDER BY epoch",
        )
        assert epochs[0]["epoch"] == 0
        assert epochs[0]["loss"] > 0
        assert 0 <= epochs[0]["acc1"] <= 100
        slowest = ask(
            probing,
            job.pid,
            "SELECT operation_name, avg(duration_ms) AS took, count(*) AS calls FROM python.torch_trace"
            " WHERE timestamp > now() - interval '5 minutes' GROUP BY 1 ORDER BY 2 DESC LIMIT 3",
        )
        assert slowest[0]["operation_name"] in {"SmallResNet.forward", "SmallResNet.backward"}
    finally:
        job.kill()
        job.communicate()
