"""An incident: one file with what was known of a job, which says the same when the job is gone.

A real DDP job on gloo that hangs, and a plain Python program.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import Cli, Target, clean_environment, rows, wait_until
from test_ddp import PATIENCE, WHO, WORLD, DdpJob
from users import free_port
from zygote import TORCH

SECRET = "s3cr3t-of-the-job-0815"
MOST_SECONDS = 10
MOST_BYTES = 20_000_000

Finding = tuple[str, str, tuple[int, ...], tuple[int, ...], str]


def findings(probing: Cli, *target: object) -> set[Finding]:
    """What was found, without the seconds in its text and without what to do next."""
    answer = json.loads(probing(*target, "diagnose", "--json", "--patience", PATIENCE).stdout)
    assert answer["problems"] == [], answer
    return {
        (one["class"], one["rule"], tuple(one["ranks"]), tuple(one["pids"]), str(one["job"]))
        for one in answer["findings"]
    }


def incident(probing: Cli, path: Path, *options: object, target: tuple[object, ...] = ()) -> dict[str, Any]:
    return probing(*target, "incident", "-o", path, "--json", *options, timeout=60).expect(0).json


# ── a job that hangs ─────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def hang(probing: Cli, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What was found live, and the file; the job is gone when the tests read it."""
    if not TORCH.exists():
        pytest.skip("needs torch in build/torch-venv (tools/install_deps.sh torch)")
    folder = tmp_path_factory.mktemp("hang")
    job = DdpJob(folder, "lock")
    try:
        job.await_step(10)
        for pid in job.pids:
            probing("-t", pid, "inject").expect(0)

        def is_found() -> bool:
            return any(one[0] == "collective_hang" for one in findings(probing))

        wait_until(is_found, 60, "the hang is found")
        path = folder / "hang.incident"
        # A hang that has just begun is watched for probing.diagnose.patience (10 s) before it is a finding.
        wait_until(lambda: probing("diagnose", "--json").seconds < 5, 60, "the hang is known")
        summary = incident(probing, path)
        live = findings(probing)
        where = rows(
            probing, "SELECT pid, func, lineno FROM global.python.stacks WHERE func = 'wait_for_ever'"
        )
    finally:
        job.end()
    yield {"path": path, "summary": summary, "live": live, "where": where, "pids": job.pids, "name": job.name}


@pytest.mark.slow(180)
def test_an_incident_is_small_and_quick(hang: dict[str, Any]) -> None:
    summary = hang["summary"]
    assert summary["seconds"] <= MOST_SECONDS, summary
    assert hang["path"].stat().st_size == summary["bytes"] <= MOST_BYTES
    assert summary["processes"] == WORLD and "collective_hang" in summary["findings"], summary
    assert hang["path"].stat().st_mode & 0o077 == 0, "it is for its owner until he gives it away"


def test_diagnose_finds_in_the_file_what_it_found_live(probing: Cli, hang: dict[str, Any]) -> None:
    in_file = findings(probing, "-t", hang["path"])
    assert in_file == hang["live"]
    assert any(one[0] == "collective_hang" and one[2] == (WHO,) for one in in_file), in_file
    text = probing("-t", hang["path"], "diagnose", "--patience", PATIENCE).stdout
    assert f"collective_hang rank {WHO}" in text and "wait_for_ever (target_ddp.py:" in text


def test_what_comes_next_works_on_the_file(probing: Cli, hang: dict[str, Any]) -> None:
    answer = json.loads(probing("-t", hang["path"], "diagnose", "--json", "--patience", PATIENCE).stdout)
    for finding in answer["findings"]:
        program, *words = finding["next"].split(maxsplit=4)
        assert (program, words[1]) == ("probing", str(hang["path"])), finding
        if "query" not in words:
            assert "wait_for_ever (" in probing(*words).expect(0).stdout


def test_backtraces_of_all_ranks_are_in_it(probing: Cli, hang: dict[str, Any]) -> None:
    text = probing("-t", hang["path"], "backtrace").expect(0).stdout
    for rank, pid in enumerate(hang["pids"]):
        assert f"Process {pid}, rank {rank} of job {hang['name']} on " in text
    [place] = hang["where"]
    assert f"wait_for_ever (target_ddp.py:{place['lineno']})" in text.replace("targets/", "")
    together = probing("-t", hang["path"], "cluster", "backtrace").expect(0).stdout
    assert "in wait_for_ever" in together and f"{WORLD - 1} ranks (" in together


def test_now_is_the_moment_of_the_file(probing: Cli, hang: dict[str, Any]) -> None:
    sql = """SELECT count(*) AS n, max(timestamp) <= now() + INTERVAL 10 SECOND AS fits,
        max(timestamp) > now() - INTERVAL 30 SECOND AS is_new, now() = current_timestamp AS same
        FROM system.cpu WHERE timestamp > now() - INTERVAL '5 minutes'"""
    before = rows(probing, "SELECT epoch(now()) AS s", hang["path"])
    [row] = rows(probing, sql, hang["path"])
    assert row["n"] > 0 and row["fits"] and row["is_new"] and row["same"], row
    # And for everybody else it is the present again.
    [present] = rows(probing, "SELECT epoch(now()) AS s")
    assert present["s"] > before[0]["s"]
    assert rows(probing, "SELECT epoch(now()) AS s", hang["path"]) == before


def test_samples_before_the_hang_are_a_flame_graph(
    probing: Cli, hang: dict[str, Any], tmp_path: Path
) -> None:
    svg = tmp_path / "before.svg"
    probing("-t", hang["path"], "flamegraph", "--idle", "-o", svg).expect(0)
    assert "wait_for_ever" in svg.read_text()
    collapsed = tmp_path / "before.txt"
    probing("-t", hang["path"], "record", "--idle", "-f", "collapsed", "-o", collapsed).expect(0)
    assert "wait_for_ever" in collapsed.read_text()


def test_the_page_and_agents_read_the_file(probing: Cli, hang: dict[str, Any]) -> None:
    port = free_port()
    command = [str(probing.bin / "probing"), "serve", str(hang["path"]), "--listen", f"127.0.0.1:{port}"]
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment()
    )

    def ask(method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            headers = {"Content-Type": "application/json"} if body is not None else {}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            return answer.status, json.loads(text) if text.startswith("{") else text
        finally:
            connection.close()

    try:
        assert server.stdout is not None
        assert server.stdout.readline().startswith(b"http://127.0.0.1:")
        status, page = ask("GET", "/")
        assert status == 200 and "<html" in page
        _, listed = ask("GET", "/api/v1/targets")
        assert sorted(one["pid"] for one in listed["targets"]) == sorted(hang["pids"])
        pid = hang["pids"][WHO]
        sql = "SELECT DISTINCT func FROM python.stacks WHERE func = 'wait_for_ever'"
        assert ask("POST", "/api/v1/query", {"sql": sql, "target": pid})[1]["rows"] == [["wait_for_ever"]]
        assert ask("POST", "/api/v1/query", {"sql": sql, "target": hang["pids"][0]})[1]["rows"] == []
        _, diagnosis = ask("GET", f"/api/v1/diagnose?patience={PATIENCE}")
        assert any(one["class"] == "collective_hang" for one in diagnosis["findings"])
        assert "wait_for_ever" in json.dumps(ask("GET", f"/api/v1/backtrace?target={pid}")[1])
        call = {"name": "backtrace", "arguments": {"target": pid}}
        told = ask("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
        assert "wait_for_ever" in json.dumps(told)
        tools = ask("POST", "/mcp", {"jsonrpc": "2.0", "id": 2, "method": "tools/list"})[1]["result"]["tools"]
        assert {"query", "diagnose"} <= {one["name"] for one in tools}
        assert not {"eval", "flamegraph"} & {one["name"] for one in tools}
        # The numbers in the file mean nothing here.
        assert ask("POST", "/api/v1/eval", {"target": os.getpid(), "code": "1"})[0] == 404
        assert ask("POST", "/api/v1/profile", {"target": os.getpid()})[0] == 404
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(10) == 0


def test_a_file_that_was_damaged_says_so(probing: Cli, hang: dict[str, Any], tmp_path: Path) -> None:
    whole = hang["path"].read_bytes()
    cut = tmp_path / "cut.incident"
    cut.write_bytes(whole[: len(whole) // 2])
    for command in (["diagnose"], ["backtrace"], ["query", "SELECT 1"]):
        answer = probing("-t", cut, *command).expect(1)
        assert "the incident file is damaged: it ends in the rows of " in answer.stderr, answer
    changed = tmp_path / "changed.incident"
    changed.write_bytes(whole[:-100] + b"x" * 100)
    assert "have changed" in probing("-t", changed, "diagnose").expect(1).stderr
    answer = probing("serve", changed).expect(1)
    assert "have changed" in answer.stderr


# ── a plain program ──────────────────────────────────────────────────────────────────────────


def test_variables_and_secrets_stay_at_home(probing: Cli, target: Any, tmp_path: Path) -> None:
    job: Target = target("busy", "--token", SECRET, HF_TOKEN=SECRET, PROBING_TOKEN="read:" + SECRET)
    probing("-t", job.pid, "inject").expect(0)
    thread = f"threading.Thread(target=threading.Event().wait, name='{SECRET}', daemon=True)"
    probing("-t", job.pid, "eval", f"import threading; {thread}.start()").expect(0)
    path, with_locals = tmp_path / "plain.incident", tmp_path / "locals.incident"
    incident(probing, path, target=("-t", job.pid))
    incident(probing, with_locals, "--locals", target=("-t", job.pid))
    shows = "SELECT count(*) AS n FROM python.stacks WHERE locals IS NOT NULL"
    assert rows(probing, shows, path) == [{"n": 0}]
    assert rows(probing, shows, with_locals)[0]["n"] > 0
    everything = []
    for name in [row["table_name"] for row in rows(probing, "SELECT table_name FROM probing.tables", path)]:
        everything.append(probing("-t", path, "query", "--json", f"SELECT * FROM {name}").stdout)
    text = "".join(everything)
    assert str(job.pid) in text and "target_busy" in text
    assert SECRET not in text and "*" * len(SECRET) in text
    assert SECRET.encode() not in path.read_bytes()


def test_it_is_never_written_over_something(probing: Cli, busy: Target, tmp_path: Path) -> None:
    path = tmp_path / "busy.incident"
    path.write_text("precious")
    answer = probing("-t", busy.pid, "incident", "-o", path).expect(2)
    assert "is there already" in answer.stderr and path.read_text() == "precious"
    missing = tmp_path / "no/x.incident"
    assert f"write {missing}: ENOENT" in probing("-t", busy.pid, "incident", "-o", missing).expect(1).stderr
    assert [each.name for each in tmp_path.glob("*.part")] == []


def test_a_full_disk_leaves_nothing_behind(probing: Cli, busy: Target) -> None:
    if os.getuid() != 0:
        pytest.skip("mounting a small disk takes root")
    script = f"""
        set -e; folder=$(mktemp -d); mount -t tmpfs -o size=16k none $folder
        {probing.bin / "probing"} -t {busy.pid} incident -o $folder/x.incident || echo "exit $?"
        ls -A $folder; umount $folder; rmdir $folder"""
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", script],
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=True,
    )
    assert "No space left on device" in done.stderr, done
    assert done.stdout.splitlines() == ["exit 1"], done


def test_one_is_written_when_a_job_dies(probing: Cli, target: Any, tmp_path: Path) -> None:
    folder = tmp_path / "kept" / "here"
    try:
        settings = ["probing.incident.on=death", f"probing.incident.dir={folder}", "probing.incident.files=1"]
        probing("config", *settings).expect(0)
        ranks = [target("busy", RANK=str(rank), WORLD_SIZE="2", PROBING_JOB="dies") for rank in (0, 1)]
        for rank in ranks:
            probing("-t", rank.pid, "inject").expect(0)
        ranks[1].will_end(-signal.SIGSEGV)
        os.kill(ranks[1].pid, signal.SIGSEGV)

        def written() -> list[Path]:
            return list(folder.glob("incident-*-first_death.incident"))

        [path] = wait_until(written, 45, "the file is written")
        assert [one for one in findings(probing, "-t", path) if one[0] == "first_death"]
        deaths = rows(probing, "SELECT pid FROM crash.events", path)
        assert deaths == [{"pid": ranks[1].pid}]
        wait_until(lambda: not list(folder.glob("*.part")), 5, "only whole files are there")
        assert len(written()) == 1
    finally:
        probing("config", "probing.incident.on=none", "probing.incident.dir=", "probing.incident.files=10")
