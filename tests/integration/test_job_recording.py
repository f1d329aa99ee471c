"""`record` and `flamegraph` of a whole job: one profile, sampled at the same moments on all hosts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path

import gloo_jobs
import harness
import pytest
from harness import Cli, Target, wait_until
from machines import Machine, machines
from zygote import TORCH, Zygote

StartTarget = Callable[..., Target]
RANKS = 3
RECORD = ("record", "--idle", "-r", 20, "-d", 3, "-f", "html", "-o")


def recorded(html: Path) -> dict:
    return json.loads(html.read_text().partition('id="data">')[2].partition("</script>")[0])


def seen_together(data: dict) -> list[dict[int, str]]:
    """Of each tick, in which function each rank was."""
    ticks: dict[int, dict[int, str]] = {}
    samples, period = data["samples"], data["period_ns"]
    columns = zip(samples["start_ns"], samples["weight"], samples["thread"], samples["stack"], strict=True)
    for start, weight, thread, stack in columns:
        names = [data["frames"][frame]["func"] for frame in data["stacks"][stack]]
        if "walk" not in names:
            continue
        for tick in range(round(start / period), round(start / period) + weight):
            (name,) = [*names[names.index("walk") + 1 :][:1], "walk"][:1]
            ticks.setdefault(tick, {})[data["threads"][thread]["rank"]] = name
    return list(ticks.values())


def assert_at_the_same_moments(data: dict, ranks: int) -> None:
    """They change places every 20 ms and a sample comes every 50 ms: else most differ."""
    ticks = [tick for tick in seen_together(data) if len(tick) == ranks]
    assert len(ticks) >= 40, len(ticks)
    agreeing = [tick for tick in ticks if len(set(tick.values())) == 1]
    assert len(agreeing) >= 0.75 * len(ticks), (len(agreeing), len(ticks))


@pytest.fixture
def in_step(target: StartTarget) -> list[Target]:
    return [
        target("in_step", RANK=str(rank), WORLD_SIZE=str(RANKS), PROBING_JOB="steps") for rank in range(RANKS)
    ]


def test_ranks_of_a_host_are_sampled_at_the_same_moments(
    probing: Cli, in_step: list[Target], tmp_path: Path
) -> None:
    path = tmp_path / "out.html"
    answer = probing("-t", "job:steps", *RECORD, path).expect(0)
    assert "3 of 3 ranks, sampled at the same moments" in answer.stderr, answer.stderr
    data = recorded(path)
    assert sorted({thread["rank"] for thread in data["threads"]}) == [0, 1, 2]
    assert {thread["pid"] for thread in data["threads"]} == {rank.pid for rank in in_step}
    assert_at_the_same_moments(data, RANKS)


def opened(pid: int) -> str:
    return " ".join(os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir() if each.is_symlink())


def test_ranks_that_are_missing_are_named(probing: Cli, target: StartTarget, tmp_path: Path) -> None:
    for rank in (0, 2):
        target("sleep", RANK=str(rank), WORLD_SIZE="5", PROBING_JOB="holes")
    last = target("sleep", RANK="4", WORLD_SIZE="5", PROBING_JOB="holes")
    words = ["-t", "job:holes", "record", "--idle", "-d", "2", "-o", str(tmp_path / "out.json")]
    command = [str(probing.bin / "probing"), *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
        wait_until(lambda: f"/proc/{last.pid}/" in opened(running.pid), 10, "it is sampled")
        last.will_end()
        last.kill()
        _, said = running.communicate(timeout=30)
    assert running.returncode == 6, said
    assert "ranks 1, 3: not found on this host" in said
    assert "3 of 5 ranks" in said and re.search(r"rank 4 \(process \d+\) ended after [01]\.\d s", said), said
    assert json.loads((tmp_path / "out.json").read_text())["profiles"]


def tooltips(svg: Path) -> dict[str, str]:
    """By the function they are about."""
    root = ET.parse(svg).getroot()
    texts = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}title")]
    return {text.split(" (")[0].split(":")[0]: text for text in texts}


@pytest.fixture
def uneven(target: StartTarget) -> list[Target]:
    """The last of three ranks does something else."""
    names = ("shares", "shares", "calls")
    return [
        target(name, RANK=str(rank), WORLD_SIZE="3", PROBING_JOB="uneven") for rank, name in enumerate(names)
    ]


def test_each_frame_says_which_ranks_were_in_it_and_one_is_compared_with_the_others(
    probing: Cli, uneven: list[Target], tmp_path: Path
) -> None:
    svg = tmp_path / "all.svg"
    probing("-t", "job:uneven", "flamegraph", "-d", 1, "-o", svg).expect(0)
    assert not list(tmp_path.glob("*rank*")), "one picture, not one of each"
    texts = tooltips(svg)
    assert " [0, 1]: " in texts["hot"] and "[0-2]" in texts["all [0-2]"]
    alone = tmp_path / "one.svg"
    probing("-t", "job:uneven", "flamegraph", "-d", 1, "--rank", 1, "-o", alone).expect(0)
    assert " [1]: " in tooltips(alone)["hot"]
    other = tmp_path / "against.svg"
    words = ("--rank", 2, "--against", "others", "-d", 1, "-o", other)
    probing("-t", "job:uneven", "flamegraph", *words).expect(0)
    drawn = other.read_text()
    assert "hot (" not in drawn, "what only the others do has no width"
    assert re.search(r'class="f more\d".{0,200}target_calls.py', drawn), "red: only this one does it"
    assert "against 0, 1" in drawn
    assert re.search(r"\+\d+\.\d\d points", drawn)


def test_formats_tell_ranks_apart(probing: Cli, uneven: list[Target], tmp_path: Path) -> None:
    names = {}
    for form in ("speedscope", "chrome", "gecko", "collapsed", "pprof"):
        path = tmp_path / form
        words = ("record", "-d", 0.5, "-f", form, "--ranks", "-o", path)
        probing("-t", "job:uneven", *words).expect(0)
        names[form] = path.read_bytes().decode(errors="replace")
    speedscope = [each["name"] for each in json.loads(names["speedscope"])["profiles"]]
    assert {name[:7] for name in speedscope} == {"rank 0 ", "rank 1 ", "rank 2 "}
    processes = [
        event["args"]["name"]
        for event in json.loads(names["chrome"])["traceEvents"]
        if event["name"] == "process_name"
    ]
    assert sorted(name[:7] for name in processes) == ["rank 0 ", "rank 1 ", "rank 2 "]
    gecko = {thread["processName"][:7] for thread in json.loads(names["gecko"])["threads"]}
    assert gecko == {"rank 0 ", "rank 1 ", "rank 2 "}
    assert {line.split(";")[0] for line in names["collapsed"].splitlines()} == {"rank 0", "rank 1", "rank 2"}
    assert "\x04rank" in names["pprof"]


def test_what_cannot_be_is_said_before_the_recording(
    probing: Cli, uneven: list[Target], tmp_path: Path
) -> None:
    job = ("-t", "job:uneven")
    svg = ("-o", tmp_path / "x.svg", "-d", 60)
    assert "as in 3 or 0-2,4" in probing(*job, "flamegraph", "--rank", "x", *svg).expect(2).stderr
    assert "needs --rank" in probing(*job, "flamegraph", "--against", "others", *svg).expect(2).stderr
    words = ("record", "--rank", 1, "--against", "others", "-f", "pprof", "-d", 60)
    assert "a comparison is a picture" in probing(*job, *words).expect(2).stderr
    assert "-t job record" in probing("-t", uneven[0].pid, "record", "--rank", 1, *svg).expect(2).stderr
    assert "at most 1000 for a job" in probing(*job, "record", "-r", 5000, *svg).expect(2).stderr
    gone = probing(*job, "flamegraph", "--rank", 7, "-o", tmp_path / "x.svg", "-d", 0.2).expect(4)
    assert "nothing was recorded of rank 7" in gone.stderr and "recorded: ranks 0-2" in gone.stderr


# ── several hosts ────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def two_machines(probing: Cli, tmp_path: Path) -> Iterator[list[Machine]]:
    """A rank on each, which have the same pid, and the clock of the second is two seconds ahead."""
    library, jump = tmp_path / "jump.so", tmp_path / "jump"
    source = harness.ROOT / "tests/targets/clock_jump.c"
    command = ["gcc", "-shared", "-fPIC", "-O1", f'-DFILE_NAME="{jump}"', "-o", library, source, "-ldl"]
    subprocess.run(command, check=True)
    jump.write_text("2")
    with machines(probing, 2) as network:
        programs = []
        for rank, machine in enumerate(network):
            clock = [] if rank == 0 else ["env", f"LD_PRELOAD={library}"]
            environment = harness.clean_environment(**machine.environment)
            own = [*machine.prefix, *clock, str(probing.bin / "probingd")]
            programs.append(subprocess.Popen(own, env=environment, stderr=subprocess.DEVNULL))
        for rank, machine in enumerate(network):
            wait_until(lambda: machine("cluster", "nodes").code == 0, 20, "it listens")  # noqa: B023
            environment = harness.clean_environment(RANK=str(rank), WORLD_SIZE="2", PROBING_JOB="apart")
            own = [*machine.prefix, sys.executable, str(harness.TARGETS / "target_in_step.py")]
            program = subprocess.Popen(own, env=environment, stdout=subprocess.PIPE)
            assert program.stdout is not None
            program.stdout.readline()
            programs.append(program)
            machine("inject", "--job").expect(0)
        try:
            yield network
        finally:
            for program in programs:
                program.kill()
                program.wait()


def test_hosts_begin_at_the_same_moment_whatever_their_clocks_say(
    two_machines: list[Machine], tmp_path: Path
) -> None:
    path = tmp_path / "out.html"
    answer = two_machines[0]("-t", "job:apart", *RECORD, path, timeout=60).expect(0)
    assert "2 of 2 ranks, sampled at the same moments; 1 other host, whose clocks" in answer.stderr
    assert "after the others" not in answer.stderr
    data = recorded(path)
    pids = {thread["rank"]: thread["pid"] for thread in data["threads"]}
    assert len(set(pids.values())) == 2, "two processes, also where both have the same number"
    assert_at_the_same_moments(data, 2)
    starts = [
        min(
            start
            for start, thread in zip(data["samples"]["start_ns"], data["samples"]["thread"], strict=True)
            if data["threads"][thread]["rank"] == rank
        )
        for rank in (0, 1)
    ]
    assert abs(starts[0] - starts[1]) < 1e9
    # A host that does not answer any more costs its ranks.
    one = two_machines[1]
    one("config", "probing.server.addr=").expect(0)
    answer = two_machines[0]("-t", "job:apart", "record", "--idle", "-d", 0.5, "-o", path, timeout=60).expect(
        6
    )
    assert "rank 1" in answer.stderr and "1 of 2 ranks" in answer.stderr


@pytest.mark.slow(240)
@pytest.mark.skipif(
    not TORCH.exists(), reason="needs torch in build/torch-venv (tools/install_deps.sh torch)"
)
def test_a_straggler_of_a_real_job_is_red_against_the_others(
    probing: Cli, torch_zygote: Zygote, tmp_path: Path
) -> None:
    with gloo_jobs.started(probing, torch_zygote, tmp_path, 3, "straggler", 1, 5) as job:
        job.await_steps(10)
        picture = tmp_path / "straggler.svg"
        words = ("flamegraph", "--idle", "-d", 3, "--rank", 1, "--against", "others", "-o", picture)
        answer = job.network[0]("-t", "job:gloo", *words, timeout=60).expect(0)
        assert "3 of 3 ranks" in answer.stderr and "2 other hosts" in answer.stderr
    boxes = re.findall(r'<g class="f (\w+)" [^>]*data-l="[^"]*forward \(target_gloo', picture.read_text())
    assert boxes and all(box.startswith("more") for box in boxes), boxes
