"""`probing profile`: torch's own profiler in a job that runs, without a trace of it afterwards."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli, wait_until
from terminal import Terminal

TORCH = harness.ROOT / "build/torch-venv/bin/python"
pytestmark = [
    pytest.mark.skipif(
        not TORCH.exists(), reason="needs torch in build/torch-venv (tools/install_deps.sh torch, 1 GB)"
    ),
    pytest.mark.slow(400),  # importing torch takes seconds, on a machine that has nothing else to do
]

# Prints the losses of its first steps, and goes on until a file says how it is to end.
JOB = """
import gc, json, os, sys, time
import torch
folder, printed, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(7)
torch.set_num_threads(1)
layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.1)
model = torch.nn.Sequential(torch.nn.TransformerEncoder(layer, 2), torch.nn.Linear(32, 8))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
def step():
    optimizer.zero_grad()
    loss = model(torch.randn(size, 6, 32)).square().mean()
    loss.backward()
    optimizer.step()
    time.sleep(0.002)
    return loss.item()
def said(name):
    return os.path.exists(os.path.join(folder, name))
def by_hand():
    cpu = torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[cpu], profile_memory=True) as profiler:
        for _ in range(3):
            step()
    profiler.export_chrome_trace(os.path.join(folder, "by_hand.json"))
    counts = {e.key: e.self_cpu_time_total for e in profiler.key_averages()}
    with open(os.path.join(folder, "counts.part"), "w") as file:
        json.dump(counts, file)
    os.rename(os.path.join(folder, "counts.part"), os.path.join(folder, "counts"))
for _ in range(3):
    step()
open(os.path.join(folder, "ready"), "w").close()
number = 0
while number < printed or not said("end"):
    loss = step()
    number += 1
    if number <= printed:
        print(number, loss.hex(), flush=True)
    if said("own") and not said("own_on"):
        profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        profiler.start()
        open(os.path.join(folder, "own_on"), "w").close()
    if said("own_on") and said("own_off") and not said("own_done"):
        profiler.stop()
        with open(os.path.join(folder, "own_part"), "w") as file:
            file.write(str(len(profiler.events())))
        os.rename(os.path.join(folder, "own_part"), os.path.join(folder, "own_done"))
    if said("by_hand") and not said("counts"):
        by_hand()
gc.collect()
left = [type(o).__name__ for o in gc.get_objects() if type(o).__module__ == "torch._C._profiler"]
hooks = vars(sys.modules["torch.optim.optimizer"])["_global_optimizer_post_hooks"]
profiler = torch.autograd.profiler
names = [f.__module__ for f in (profiler._prepare_profiler, profiler._enable_profiler)]
print("end", left, list(hooks), profiler._is_profiler_enabled, names, flush=True)
"""


class Job:
    def __init__(self, folder: Path, printed: int = 0, size: int = 4) -> None:
        self.folder, self.output = folder, folder / "output"
        folder.mkdir(exist_ok=True)
        (folder / "job.py").write_text(JOB)
        command = [str(TORCH), str(folder / "job.py"), str(folder), str(printed), str(size)]
        with self.output.open("wb") as file:  # both streams, as they come
            self.process = subprocess.Popen(
                command, stdout=file, stderr=file, env=harness.clean_environment(OMP_NUM_THREADS="1")
            )
        wait_until((folder / "ready").exists, 120, "the job trains")

    def say(self, name: str) -> None:
        (self.folder / name).touch()

    def wait_for(self, name: str) -> str:
        wait_until((self.folder / name).exists, 60, name)
        return (self.folder / name).read_text()

    def end(self) -> bytes:
        self.say("end")
        assert self.process.wait(120) == 0, self.output.read_text()[-2000:]
        return self.output.read_bytes()


@pytest.fixture
def job(tmp_path: Path, probing: Cli) -> Iterator[Job]:
    started = Job(tmp_path / "job")
    probing("-t", started.process.pid, "inject").expect(0)
    yield started
    if started.process.poll() is None:
        started.process.kill()
        started.process.wait()


def read_events(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text())["traceEvents"]


def ask(probing: Cli, pid: int | Path, sql: str) -> list[dict[str, Any]]:
    return json.loads(probing("-t", pid, "query", "-f", "json", sql).expect(0).stdout)


def stacks(probing: Cli, job: Job) -> str:
    return probing("-t", job.process.pid, "backtrace", "--all").stdout


def test_operators_are_those_of_torchs_profiler_by_hand(probing: Cli, job: Job, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    text = probing("-t", job.process.pid, "profile", "--steps", 3, "-o", trace, timeout=200).expect(0).stdout
    assert "3 steps" in text and "The biggest costs:" in text
    job.say("by_hand")
    own_times = json.loads(job.wait_for("counts"))
    rows = ask(probing, job.process.pid, "SELECT op, calls, self_us FROM python.op_costs WHERE kind = 'op'")
    ours = {row["op"]: row["calls"] for row in rows}
    by_hand = [event for event in read_events(job.folder / "by_hand.json") if event.get("cat") == "cpu_op"]
    assert ours == Counter(event["name"] for event in by_hand)
    # Of one and the same profile: own times as torch counts them.
    rows = ask(
        probing, job.folder / "by_hand.json", "SELECT op, self_us FROM python.op_costs WHERE kind = 'op'"
    )
    assert len(rows) > 30
    for row in rows:
        assert row["self_us"] == pytest.approx(own_times[row["op"]], rel=0.1, abs=1), row
    steps = ask(
        probing,
        job.process.pid,
        "SELECT step, count(*) AS n FROM python.torch_ops GROUP BY ALL ORDER BY step",
    )
    assert [row["step"] for row in steps if row["step"]] == [1, 2, 3]
    # The file is what everybody else reads.
    events = [event for event in read_events(trace) if event.get("cat") == "cpu_op"]
    assert len(events) == sum(ours.values())
    assert ask(probing, trace, "SELECT count(*) AS n FROM python.torch_ops WHERE kind = 'op'")[0]["n"] == len(
        events
    )
    end = job.end().decode().splitlines()[-1]
    assert end.startswith("end [] [] False"), end


def test_nothing_is_printed_and_every_loss_is_the_same(probing: Cli, tmp_path: Path) -> None:
    alone = Job(tmp_path / "alone", 150)
    expected = alone.end()
    job = Job(tmp_path / "job", 150)
    probing("-t", job.process.pid, "inject").expect(0)
    for number in range(1, 11):  # ten in a row
        probing("-t", job.process.pid, "profile", "--steps", 2, timeout=200).expect(0)
        assert ask(probing, job.process.pid, "SELECT max(profile) AS n FROM python.torch_ops") == [
            {"n": number}
        ]
    probing("-t", job.process.pid, "profile", "--seconds", 0.2, "--shapes", timeout=200).expect(0)
    newest = "SELECT shapes FROM python.torch_ops WHERE op = 'aten::addmm' AND profile = 11 LIMIT 1"
    shapes = ask(probing, job.process.pid, newest)
    assert shapes == [{"shapes": shapes[0]["shapes"]}] and shapes[0]["shapes"].startswith("[[")
    descriptors = os.listdir(f"/proc/{job.process.pid}/fd")
    links = [os.readlink(f"/proc/{job.process.pid}/fd/{fd}") for fd in descriptors if fd.isdigit()]
    assert not [link for link in links if "probing-profile" in link]
    assert job.end() == expected
    assert not list(Path("/tmp").glob("probing-profile-*"))


def test_the_jobs_own_profiler_comes_first(probing: Cli, job: Job) -> None:
    job.say("own")
    job.wait_for("own_on")
    answer = probing("-t", job.process.pid, "profile", timeout=200).expect(1)
    assert "a profiler of torch is on in the job already" in answer.stderr
    job.say("own_off")
    assert int(job.wait_for("own_done")) > 100
    probing("-t", job.process.pid, "profile", "--steps", 1, timeout=200).expect(0)
    job.end()


def test_a_job_that_starts_a_profiler_meanwhile_gets_it(probing: Cli, job: Job) -> None:
    command = [str(harness.BIN / "probing"), "-t", str(job.process.pid), "profile", "--seconds", "60"]
    asked = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: "Recording" in stacks(probing, job), 30, "the profile is under way")
    job.say("own")
    job.wait_for("own_on")
    _, told = asked.communicate(timeout=120)
    assert asked.returncode == 6 and "the job has started a profiler of its own" in told
    job.say("own_off")
    assert int(job.wait_for("own_done")) > 100
    job.end()


def test_the_job_may_end_in_the_middle(probing: Cli, job: Job) -> None:
    command = [str(harness.BIN / "probing"), "-t", str(job.process.pid), "profile", "--steps", "100000"]
    asked = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: "Recording" in stacks(probing, job), 30, "the profile is under way")
    job.end()
    _, told = asked.communicate(timeout=120)
    assert asked.returncode in (1, 4, 6) and "probing:" in told  # with what there is, when it came in time


def test_a_client_that_goes_away_ends_the_profile(probing: Cli, job: Job) -> None:
    command = [str(harness.BIN / "probing"), "-t", str(job.process.pid), "profile", "--seconds", "600"]
    asked = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: "Recording" in stacks(probing, job), 30, "the profile is under way")
    asked.send_signal(signal.SIGINT)
    asked.wait(60)
    code = "__import__('torch').autograd.profiler._is_profiler_enabled"

    def is_off() -> bool:
        answer = probing("-t", job.process.pid, "eval", code, timeout=60)
        return answer.code == 0 and answer.stdout == "False\n"

    wait_until(is_off, 60, "the profiler is off again")
    probing("-t", job.process.pid, "profile", "--steps", 1, timeout=200).expect(0)
    job.end()


def test_a_profile_ends_before_it_takes_too_much_memory(probing: Cli, job: Job) -> None:
    probing("config", "probing.profile.memory=2MB").expect(0)
    try:
        answer = probing("-t", job.process.pid, "profile", "--seconds", 60, timeout=300).expect(6)
        assert "had grown by more than probing.profile.memory" in answer.stderr
    finally:
        probing("config", "probing.profile.memory=1GB").expect(0)
    job.end()


def test_rows_beyond_the_limit_are_counted(probing: Cli, job: Job) -> None:
    probing("config", "probing.trace.events=50").expect(0)
    try:
        answer = probing("-t", job.process.pid, "profile", "--steps", 2, timeout=200).expect(6)
        assert "no more than 50 are read" in answer.stderr
        assert ask(probing, job.process.pid, "SELECT count(*) AS n FROM python.torch_ops") == [{"n": 50}]
    finally:
        probing("config", "probing.trace.events=2000000").expect(0)
    job.end()


def test_a_quarter_of_a_million_events_are_rows(probing: Cli, job: Job) -> None:
    probing("-t", job.process.pid, "profile", "--steps", 250, "--timeout", 300, timeout=390).expect(0)
    sql = "SELECT count(*) AS n, count(DISTINCT step) AS steps FROM python.torch_ops"
    [row] = ask(probing, job.process.pid, sql)
    assert row["n"] > 200_000 and row["steps"] == 250
    job.end()


def test_a_profile_beside_tracing_log_points_a_recording_and_a_debugger(
    probing: Cli, job: Job, terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    pid = job.process.pid
    probing("-t", pid, "config", "probing.torch.profiling=on").expect(0)
    probing("-t", pid, "debug", "watch", "step", "--return").expect(0)
    command = [
        str(harness.BIN / "probing"),
        "-t",
        str(pid),
        "record",
        "-d",
        "120",
        "-o",
        str(tmp_path / "stacks"),
    ]
    recording = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        probing("-t", pid, "profile", "--steps", 5, timeout=200).expect(0)
        for table in ("python.torch_ops", "python.torch_steps", "python.logpoints"):
            sql = f"SELECT count(*) AS n FROM {table}"
            wait_until(lambda sql=sql: ask(probing, pid, sql)[0]["n"] > 0, 30, f"rows of {table}")
    finally:
        recording.send_signal(signal.SIGINT)
        recording.wait(60)
    assert (tmp_path / "stacks").stat().st_size > 0
    session = terminal(r"\(probing\) ", "-t", pid, "debug")
    held = probing("-t", pid, "profile", "--timeout", 2, timeout=200).expect(1)
    assert "no optimizer has ended a step within the time limit" in held.stderr
    session.ask("detach", "goes on")
    assert session.wait() == 0
    probing("-t", pid, "profile", "--steps", 1, timeout=200).expect(0)
    probing("-t", pid, "eject").expect(0)
    job.end()


def test_operators_that_allocate_are_named_where_a_trace_has_them(
    probing: Cli, job: Job, tmp_path: Path
) -> None:
    job.say("by_hand")  # its trace has memory
    job.wait_for("counts")
    trace = job.folder / "by_hand.json"
    lines = probing("-t", trace, "profile", "--json").expect(0).json["memory"]
    assert lines and all(
        re.fullmatch(r"\S.* allocated [\d.]+ [KMG]B more than it freed", line) for line in lines
    )
    assert not any(line.startswith("aten::empty") for line in lines), "they are called by others"
    assert "\nMemory:\n" in probing("-t", trace, "profile").expect(0).stdout
    # A profile of ours says nothing about it, and nothing beside it.
    answer = probing("-t", job.process.pid, "profile", "--steps", 1, timeout=200).expect(0)
    assert "Memory:" not in answer.stdout and "there is nothing of it" not in answer.stderr
    job.end()


def test_modules_come_with_stacks(probing: Cli, job: Job) -> None:
    probing("-t", job.process.pid, "profile", "--steps", 2, "--stacks", timeout=200).expect(0)
    rows = ask(
        probing,
        job.process.pid,
        "SELECT module, count(*) AS n FROM python.torch_ops WHERE op = 'aten::addmm' GROUP BY ALL",
    )
    assert any((row["module"] or "").startswith("Linear") for row in rows), rows
    backward = "SELECT count(*) AS n FROM python.torch_ops WHERE op LIKE 'autograd::%' AND module IS NOT NULL"
    assert ask(probing, job.process.pid, backward)[0]["n"] > 0
    job.end()


def test_a_process_without_torch_is_told_so(probing: Cli) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        probing("-t", process.pid, "inject").expect(0)
        answer = probing("-t", process.pid, "profile").expect(1)
        assert "has not imported torch" in answer.stderr
    finally:
        process.kill()
        process.wait()
