"""`probing memory --gpu`: torch's GPU allocator, who allocated what, and snapshots of it.

There is no GPU here: the real torch.cuda.memory runs on a stand-in for what it calls in C++
(tests/targets/gpu_allocator.py). What we write is read by torch's own reader of snapshots."""

from __future__ import annotations

import ast
import json
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli, rows, wait_until

TORCH = harness.ROOT / "build/torch-venv/bin/python"
needs_torch = pytest.mark.skipif(
    not TORCH.exists(), reason="needs torch in build/torch-venv (tools/install_deps.sh torch, 1 GB)"
)
pytestmark = pytest.mark.slow(300)
MB = 1 << 20

READ_BY_TORCH = """
import json, pickle, sys
from torch.cuda import _memory_viz
snapshot = pickle.load(open(sys.argv[1], "rb"))
lines = []
_memory_viz.memory(snapshot, format_flamegraph=lines.append)
plots = [len(_memory_viz.trace_plot(snapshot)), len(_memory_viz.segment_plot(snapshot))]
print(json.dumps([_memory_viz.segsum(snapshot), _memory_viz.trace(snapshot), lines[0], plots]))
"""


class Job:
    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        folder.mkdir()
        script = harness.TARGETS / "target_gpu_memory.py"
        self.output = folder / "output"
        with self.output.open("wb") as file:
            self.process = subprocess.Popen(
                [str(TORCH), str(script), str(folder), *options],
                stdout=file,
                stderr=file,
                env=harness.clean_environment(OMP_NUM_THREADS="1"),
            )
        self.pid = self.process.pid
        self.wait_for("ready")

    def say(self, name: str) -> None:
        (self.folder / name).touch()

    def wait_for(self, name: str) -> str:
        wait_until((self.folder / name).exists, 120, name)
        return (self.folder / name).read_text()

    def ask(self, question: str, name: str) -> str:
        (self.folder / name).unlink(missing_ok=True)
        self.say(question)
        return self.wait_for(name)

    def state(self) -> list[Any]:
        """[history, how often it was switched on, module of the function, observers, events kept]"""
        answer: list[Any] = ast.literal_eval(self.ask("state", "told"))
        return answer

    def end(self) -> None:
        self.say("end")
        assert self.process.wait(60) == 0, self.output.read_text()
        assert self.output.read_bytes() == b"", "nothing is printed into the job"


@pytest.fixture
def start(tmp_path: Path, probing: Cli) -> Iterator[Callable[..., Job]]:
    started: list[Job] = []

    def start_one(*options: str) -> Job:
        started.append(Job(tmp_path / f"job{len(started)}", *options))
        probing("-t", started[-1].pid, "inject").expect(0)
        return started[-1]

    yield start_one
    for job in started:
        if job.process.poll() is None:
            job.process.kill()
            job.process.wait()


@needs_torch
def test_who_allocated_what_is_told_and_torch_reads_the_snapshot(
    probing: Cli, start: Callable[..., Job], tmp_path: Path
) -> None:
    job, file = start(), tmp_path / "snapshot.pickle"
    empty = probing("-t", job.pid, "query", "SELECT * FROM gpu.memory_blocks").expect(0)
    assert f"has what `probing -t {job.pid} memory --gpu` records, and there is nothing" in empty.stderr
    text = probing("-t", job.pid, "memory", "--gpu", "-d", 0.5, "-o", file).expect(0).stdout
    assert "GPU 0: " in text and "GPU 1: 2.0 MB reserved in 1 segment" in text, text
    assert "5.0 MB in use by another stream" in text
    assert "remember (target_gpu_memory.py:" in text and "train_step (target_gpu_memory.py:" in text
    assert "allocated while torch recorded no history" in text  # the weights
    assert job.state() == [None, 1, "torch.cuda.memory", 0, 0]  # off again, and all is as it was
    # Torch's own reader accepts it, and counts the same.
    answer = subprocess.run([str(TORCH), "-c", READ_BY_TORCH, str(file)], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    summary, trace, flame, plots = json.loads(answer.stdout)
    assert "total_reserved" in summary and "cudaMalloc" not in trace and "del " in trace
    assert "remember" in flame and min(plots) > 1000
    # The rows are what is in the file, byte by byte.
    snapshot = pickle.loads(file.read_bytes())
    wanted = sorted(
        (
            segment["device"],
            segment["stream"],
            segment["address"],
            segment["total_size"],
            segment["segment_type"],
            block["address"],
            block["size"],
            None if block["state"] == "inactive" else block["requested_size"],
            {"active_allocated": "allocated", "active_pending_free": "pending_free"}.get(
                block["state"], "free"
            ),
            block["frames"][0]["name"] if block["frames"] else None,
            len(block["frames"]),
        )
        for segment in snapshot["segments"]
        for block in segment["blocks"]
    )
    sql = (
        "SELECT device, stream, segment, segment_bytes, segment_type, address, bytes, requested_bytes, state,"
        " func, CASE WHEN stack IS NULL THEN 0 ELSE "
        " length(stack) - length(replace(stack, ';', '')) + 1 END AS depth"
        " FROM gpu.memory_blocks WHERE snapshot = 1 ORDER BY device, stream, segment, address"
    )
    for target in (job.pid, file):
        assert sorted(tuple(row.values()) for row in rows(probing, sql, target)) == wanted
    stack = rows(probing, "SELECT stack, age_s FROM gpu.memory_blocks WHERE func = 'remember'", job.pid)
    assert stack and all("train_step (target_gpu_memory.py:" in row["stack"] for row in stack)
    assert all(0 <= row["age_s"] < 60 for row in stack)
    here = probing("-t", job.pid, "memory", "--gpu", "-d", 0.1, "--json").expect(0).json
    there = probing("-t", file, "memory", "--gpu", "--json").expect(0).json
    assert [one["reserved"] for one in here["devices"]] == [one["reserved"] for one in there["devices"]]
    assert there["failed"] == [] and there["holders"][0]["bytes"] >= there["holders"][1]["bytes"]
    newest = rows(probing, "SELECT max(snapshot) AS n FROM gpu.memory_blocks", job.pid)
    assert newest == [{"n": 2}]
    assert not list(Path("/tmp").glob("probing-profile-*"))
    job.end()


@needs_torch
def test_a_history_of_the_jobs_own_is_left_alone(probing: Cli, start: Callable[..., Job]) -> None:
    job = start()
    assert job.ask("own", "own_on") == ""
    answer = probing("-t", job.pid, "memory", "--gpu").expect(0)
    assert "the job records its memory history itself" in answer.stderr
    assert "forward (target_gpu_memory.py:" in answer.stdout or "remember (target" in answer.stdout
    assert job.state()[:2] == ["all", 1]
    job.end()


@needs_torch
def test_a_history_that_the_job_begins_meanwhile_stays(probing: Cli, start: Callable[..., Job]) -> None:
    job = start()
    command = [str(harness.BIN / "probing"), "-t", str(job.pid), "memory", "--gpu", "-d", "2"]
    asked = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: job.state()[0] == "all", 30, "the history is on")
    job.ask("own", "own_on")
    _, told = asked.communicate(timeout=60)
    assert asked.returncode == 0, told
    assert job.state()[:3] == ["all", 2, "torch.cuda.memory"]
    job.end()


@needs_torch
def test_a_client_that_goes_away_switches_the_history_off(probing: Cli, start: Callable[..., Job]) -> None:
    job = start()
    command = [str(harness.BIN / "probing"), "-t", str(job.pid), "memory", "--gpu", "-d", "600"]
    asked = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: job.state()[0] == "all", 30, "the history is on")
    asked.send_signal(signal.SIGINT)
    asked.wait(60)
    wait_until(lambda: job.state()[0] is None, 60, "the history is off again")
    job.end()


@needs_torch
def test_an_out_of_memory_error_leaves_a_snapshot(
    probing: Cli, start: Callable[..., Job], tmp_path: Path
) -> None:
    job, folder = start(), tmp_path / "snapshots"
    folder.mkdir()
    probing("-t", job.pid, "config", f"probing.torch.oom_snapshots={folder}").expect(0)
    wait_until(lambda: job.state()[0] == "all" and job.state()[3] == 1, 30, "the history is on")
    assert job.ask("oom", "oom_done") == "out of memory"
    [file] = folder.iterdir()
    assert job.ask("oom", "oom_done") == "out of memory"
    assert list(folder.iterdir()) == [file], "not one for each batch size that a job tries"
    text = probing("-t", file, "memory", "--gpu").expect(0).stdout
    assert "out of memory" in text and "240.0 MB were asked for in ask_for_too_much (target_gpu" in text, text
    [failed] = rows(probing, "SELECT * FROM gpu.memory_blocks WHERE state = 'failed'", file)
    assert failed["bytes"] == 240 * MB and failed["segment"] is None and failed["device"] == 0
    spans = "SELECT name, kind, attributes FROM python.spans WHERE name = 'torch.OutOfMemoryError'"
    [event] = rows(probing, spans, job.pid)
    about = json.loads(event["attributes"])
    assert about == {"device": 0, "bytes": 240 * MB, "snapshot": str(file)} and event["kind"] == "event"
    probing("-t", job.pid, "eject").expect(0)
    assert job.state()[0] is None
    assert job.ask("oom", "oom_done") == "out of memory"
    # The next probe finds the function that torch keeps.
    probing("-t", job.pid, "inject").expect(0)
    file.unlink()
    probing("-t", job.pid, "config", f"probing.torch.oom_snapshots={folder}").expect(0)
    wait_until(lambda: job.state()[0] == "all", 30, "the history is on")
    assert job.state()[3] == 1 and not list(folder.iterdir())
    assert job.ask("oom", "oom_done") == "out of memory"
    assert len(list(folder.iterdir())) == 1
    probing("-t", job.pid, "config", "probing.torch.oom_snapshots=").expect(0)
    wait_until(lambda: job.state()[0] is None, 30, "the history is off")
    job.end()


@needs_torch
def test_the_setting_waits_until_the_job_uses_a_gpu(
    probing: Cli, start: Callable[..., Job], tmp_path: Path
) -> None:
    job = start("lazy")
    assert "has not used a GPU" in probing("-t", job.pid, "memory", "--gpu").expect(1).stderr
    code = "len(__import__('torch').cuda._queued_calls)"
    before = int(probing("-t", job.pid, "eval", code).expect(0).stdout)
    probing("-t", job.pid, "config", f"probing.torch.oom_snapshots={tmp_path}").expect(0)

    def is_queued() -> bool:
        answer = probing("-t", job.pid, "eval", code)
        return answer.code == 0 and int(answer.stdout) > before

    wait_until(is_queued, 30, "it is queued")
    (job.folder / "ready").unlink()
    job.say("begin")
    job.wait_for("ready")
    wait_until(lambda: job.state()[0] == "all", 30, "the history is on")
    job.end()


def test_a_process_without_torch_is_told_so(probing: Cli) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        probing("-t", process.pid, "inject").expect(0)
        assert "has not imported torch" in probing("-t", process.pid, "memory", "--gpu").expect(1).stderr
    finally:
        process.kill()
        process.wait()


def test_other_files_are_refused_by_name(probing: Cli, tmp_path: Path) -> None:
    other = tmp_path / "other.pickle"
    other.write_bytes(pickle.dumps({"segments": "none"}))
    assert (
        "it is no snapshot of torch.cuda.memory" in probing("-t", other, "memory", "--gpu").expect(1).stderr
    )
    other.write_bytes(pickle.dumps(subprocess.Popen))
    assert "is not one of data" in probing("-t", other, "memory", "--gpu").expect(1).stderr


def test_snapshots_of_older_torch_are_read(probing: Cli, tmp_path: Path) -> None:
    """Until torch 2.0 blocks had a history instead of frames; the oldest are a list of segments."""
    frames = [{"filename": "/job/train.py", "line": 7, "name": "step"}]
    blocks = [
        {
            "size": 1024,
            "state": "active_allocated",
            "history": [{"addr": 4096, "real_size": 1000, "frames": frames}],
        },
        {"size": 3072, "state": "inactive"},
    ]
    segment = {"address": 4096, "total_size": 4096, "stream": 0, "segment_type": "small", "blocks": blocks}
    old = tmp_path / "old.pickle"
    old.write_bytes(pickle.dumps([segment]))
    found = rows(
        probing, "SELECT address, requested_bytes, func, lineno FROM gpu.memory_blocks ORDER BY address", old
    )
    assert found == [
        {"address": 4096, "requested_bytes": 1000, "func": "step", "lineno": 7},
        {"address": 5120, "requested_bytes": None, "func": None, "lineno": None},
    ]
