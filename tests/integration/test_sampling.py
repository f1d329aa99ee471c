"""Sampling from outside: the shares are right, idle is idle, and every output can be opened."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli, Target, ask_daemon, proc_status, wait_until

StartTarget = Callable[..., Target]
FUNCTIONS = ("hot", "warm", "cold")


def function_shares(collapsed: str) -> dict[str, float]:
    """How the samples with one of the three functions in the stack divide, in per cent."""
    counts = dict.fromkeys(FUNCTIONS, 0)
    for line in collapsed.splitlines():
        stack, count = line.rsplit(" ", 1)
        for name in FUNCTIONS:
            if f";{name} (" in stack:
                counts[name] += int(count)
    assert sum(counts.values()) > 0, collapsed
    return {name: 100 * count / sum(counts.values()) for name, count in counts.items()}


def true_shares(before: dict[str, int], after: dict[str, int]) -> dict[str, float]:
    spent = {name: after[name] - before[name] for name in FUNCTIONS}
    return {name: 100 * ns / sum(spent.values()) for name, ns in spent.items()}


def records(pid: int) -> bool:
    """Whether a command has come so far that it writes what it has when it is interrupted."""
    return bool(int(proc_status(pid, "SigCgt"), 16) & 1 << (signal.SIGINT - 1))


def record(probing: Cli, pid: int, *arguments: object) -> harness.Answer:
    return probing("-t", pid, "record", "-d", 0.5, "-r", 200, *arguments).expect(0)


# ── what was sampled ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", sorted({harness.python_ids()[0], harness.python_ids()[-1]}))
def test_shares_of_functions_are_what_the_target_measured(
    probing: Cli, target: StartTarget, version: str
) -> None:
    """Three tries: a machine with too much to do takes samples late, and the next one counts for them."""
    shares = target("shares", python=version)
    for _ in range(3):
        before = shares.report()
        answer = probing("-t", shares.pid, "record", "-d", 4, "-r", 750, "-f", "collapsed", "-o", "-").expect(
            0
        )
        seen, truth = function_shares(answer.stdout), true_shares(before, shares.report())
        if seen == pytest.approx(truth, abs=3):
            break
    else:
        pytest.fail(f"{seen} is not {truth}: {answer.stderr}")
    shares.expect_unharmed()


def test_a_sleeping_target_is_idle(probing: Cli, target: StartTarget) -> None:
    sleeping = target("shares", "--idle")
    wait_until(lambda: set(harness.thread_states(sleeping.pid).values()) == {"S"})
    wait_until(lambda: probing("-t", sleeping.pid, "backtrace").expect(0).stdout.count("(") == 2)
    answer = record(probing, sleeping.pid, "-f", "collapsed", "-o", "-")
    assert answer.stdout == ""
    assert "--idle" in answer.stderr
    answer = record(probing, sleeping.pid, "-f", "collapsed", "-o", "-", "--idle")
    assert re.fullmatch(r"<module> \(target_shares.py:\d+\) \d+\n", answer.stdout)


def test_threads_are_told_apart_and_waiting_ones_need_idle(probing: Cli, target: StartTarget) -> None:
    threads = target("threads", 20)
    active = record(probing, threads.pid, "-f", "collapsed", "-o", "-", "--threads").stdout
    assert "wait (" not in active
    everything = record(probing, threads.pid, "-f", "collapsed", "-o", "-", "--threads", "--idle").stdout
    groups = {line.split(";")[0] for line in everything.splitlines()}
    assert len(groups) == 20
    assert all(re.fullmatch(r"thread \d+ .*", group) for group in groups)
    assert "wait (target_threads.py" in everything


def test_only_the_holder_of_the_gil(probing: Cli, target: StartTarget) -> None:
    busy = target("shares")
    with_gil = record(probing, busy.pid, "-f", "collapsed", "-o", "-", "--gil").stdout
    assert "hot (" in with_gil
    assert probing("-t", busy.pid, "record", "--gil", "--idle").code == 2


def test_children_are_followed(probing: Cli, target: StartTarget) -> None:
    parent = target("children", 2)
    wait_until(lambda: set(harness.thread_states(parent.pid).values()) == {"S"}, 30, "the parent waits")
    answer = probing("-t", parent.pid, "record", "-d", 2, "--subprocesses", "-f", "collapsed", "-o", "-")
    processes = {line.split(";")[0] for line in answer.expect(0).stdout.splitlines()}
    assert len(processes) == 2, answer.stdout
    assert all(re.fullmatch(r"process \d+ .*target_children.*", process) for process in processes)
    assert f"process {parent.pid} " not in answer.stdout  # it only waits
    parent.expect_unharmed()


# A parent that is no Python and stays: a shell with more to do, the bootloader of a packed program.
SHELL = ["sh", "-c", '"$@"; exit 0', "sh"]


def test_children_of_a_shell_are_recorded(probing: Cli, target: StartTarget, python: str) -> None:
    shell = target("shares", python=python, prefix=SHELL)
    options = ("-d", 0.5, "--subprocesses", "-f", "collapsed", "-o", "-")
    answer = probing("-t", shell.pid, "record", *options).expect(0)
    assert re.search(r"^process \d+ .*target_shares.*;hot \(", answer.stdout, re.MULTILINE), answer.stdout


def test_children_of_a_shell_are_in_top(probing: Cli, target: StartTarget) -> None:
    shell = target("shares", prefix=SHELL)
    assert "hot" in probing("-t", shell.pid, "top", "--once", "--subprocesses").expect(0).stdout


def test_a_tree_without_python_is_refused_and_says_how_far_it_looked(probing: Cli) -> None:
    with subprocess.Popen(["sh", "-c", "sleep 60; exit 0"]) as shell:
        try:
            wait_until(lambda: harness.children_of(shell.pid), 10, "the shell's child")
            answer = probing("-t", shell.pid, "record", "-d", 0.2, "--subprocesses", "-o", "-")
            assert answer.code != 0
            assert "nor in one of its 1 children" in answer.stderr
            answer = probing("-t", shell.pid, "backtrace", "--subprocesses")
            assert answer.code != 0
            assert "nor in one of its 1 children" in answer.stderr
        finally:
            for child in harness.children_of(shell.pid):
                os.kill(child, signal.SIGKILL)
            shell.kill()


@pytest.mark.parametrize("command", ["record", "flamegraph"])
@pytest.mark.parametrize("path", ["missing/out.svg", "folder.svg"])
def test_a_bad_path_is_refused_before_anything_is_recorded(
    probing: Cli, target: StartTarget, tmp_path: Path, command: str, path: str
) -> None:
    (tmp_path / "folder.svg").mkdir()
    busy = target("shares")

    answer = probing("-t", busy.pid, command, "-d", 20, "-o", tmp_path / path)
    assert answer.code != 0
    assert path in answer.stderr
    assert answer.seconds < 10


# ── outputs ──────────────────────────────────────────────────────────────────────────────────


def test_the_svg_is_well_formed_and_has_the_functions(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    busy = target("shares")
    path = tmp_path / "out.svg"
    answer = probing("-t", busy.pid, "flamegraph", "-d", 0.5, "-o", path).expect(0)
    assert answer.stdout == f"{path}\n"
    root = ElementTree.parse(path).getroot()
    titles = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert any(title.startswith("hot (target_shares.py:") for title in titles)
    assert str(busy.pid) in path.read_text()


def test_the_html_contains_its_data(probing: Cli, target: StartTarget, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    probing("-t", target("shares").pid, "flamegraph", "-d", 0.5, "-o", path).expect(0)
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.S)
    assert found is not None
    data = json.loads(found[1])
    assert any(frame["func"] == "hot" for frame in data["frames"])
    assert sum(data["samples"]["weight"]) > 0
    assert all(0 < stack < len(data["stacks"]) for stack in data["samples"]["stack"])


def test_the_default_file_is_named_after_the_process(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    pid = target("shares").pid
    result = subprocess.run(
        [str(probing.bin / "probing"), "flamegraph", str(pid), "-d", "0.2"],
        cwd=tmp_path, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert (result.returncode, result.stdout) == (0, f"flamegraph-{pid}.svg\n")
    assert (tmp_path / f"flamegraph-{pid}.svg").exists()


def test_speedscope(probing: Cli, target: StartTarget, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    record(probing, target("shares").pid, "-o", path)
    profile = json.loads(path.read_text())
    assert profile["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    names = [frame["name"] for frame in profile["shared"]["frames"]]
    assert set(FUNCTIONS) <= set(names)
    assert len(names) == len(set(names)), "a function that was seen at two lines is one frame"
    (thread,) = profile["profiles"]
    assert thread["type"] == "sampled"
    assert len(thread["samples"]) == len(thread["weights"])
    assert sum(thread["weights"]) == pytest.approx(thread["endValue"])
    assert all(index < len(names) for stack in thread["samples"] for index in stack)


def test_chrome_trace(probing: Cli, target: StartTarget, tmp_path: Path) -> None:
    busy = target("shares")
    path = tmp_path / "out.json"
    record(probing, busy.pid, "-f", "chrome", "-o", path)
    events = json.loads(path.read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert {"<module>", "train", "hot"} <= {event["name"] for event in slices}
    assert {event["pid"] for event in slices} == {busy.pid}
    outermost = [event for event in slices if event["name"] == "<module>"]
    assert len(outermost) <= 3, "one slice, unless samples were lost in between"


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message: numbers and byte strings."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        else:
            assert tag & 7 == 2, f"wire type {tag & 7}"
            size = varint()
            yield tag >> 3, message[at : at + size]
            at += size


def test_pprof(probing: Cli, target: StartTarget, tmp_path: Path) -> None:
    path = tmp_path / "out.pb"
    record(probing, target("shares").pid, "-f", "pprof", "-o", path)
    profile = list(fields(path.read_bytes()))
    strings = [value.decode() for number, value in profile if number == 6]
    assert strings[0] == ""
    functions = [dict(fields(value)) for number, value in profile if number == 5]
    assert set(FUNCTIONS) <= {strings[function[2]] for function in functions}
    locations = {dict(fields(value))[1] for number, value in profile if number == 4}
    samples = [dict(fields(value)) for number, value in profile if number == 2]
    assert samples
    for sample in samples:
        assert set(sample[1]) <= locations  # ids below 128 are single bytes
    types = [dict(fields(value)) for number, value in profile if number == 1]
    assert [strings[type_[1]] for type_ in types] == ["samples", "wall", "cpu"]


def test_top_once(probing: Cli, target: StartTarget) -> None:
    busy = target("shares")
    answer = probing("-t", busy.pid, "top", "--once").expect(0)
    title, summary, _, header, *rows = answer.stdout.splitlines()
    assert str(busy.pid) in title
    assert re.search(r"GIL +\d+\.\d%, on CPU +\d+\.\d%, 1 threads", summary)
    assert header.split() == ["%OWN", "%TOTAL", "FUNCTION", "FILE:LINE"]
    assert re.fullmatch(r" *\d+\.\d% +\d+\.\d%  hot +target_shares.py:\d+", rows[0])


# ── ends and refusals ────────────────────────────────────────────────────────────────────────


def test_what_was_recorded_is_written_when_the_target_dies(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    busy = target("shares")
    path = tmp_path / "out.txt"
    command = [str(probing.bin / "probing"), "-t", str(busy.pid), "record", "-d", "50", "-f", "collapsed"]
    process = subprocess.Popen([*command, "-o", str(path)], stderr=subprocess.PIPE, text=True)
    wait_until(lambda: records(process.pid), what="it records")
    wait_until(lambda: busy.report()["cold"] > 0)
    busy.kill()
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 0
    assert f"process {busy.pid} ended after" in stderr
    assert path.exists()


def test_interrupt_ends_the_recording_early(probing: Cli, target: StartTarget, tmp_path: Path) -> None:
    busy = target("shares")
    path = tmp_path / "out.svg"
    command = [str(probing.bin / "probing"), "-t", str(busy.pid), "flamegraph", "-d", "50", "-o", str(path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: records(process.pid), what="it records")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    assert (process.returncode, "interrupted" in stderr) == (0, True)
    ElementTree.parse(path)


def test_errors_name_what_is_wrong(probing: Cli, target: StartTarget, compiled: Callable[..., Path]) -> None:
    busy = target("shares")
    probing("-t", 4194303, "record").expect(4)
    for command, name in (("record", "x.json"), ("flamegraph", "x.svg")):  # at once, not after 50 seconds
        answer = probing("-t", busy.pid, command, "-d", 50, "-o", f"/nonexistent/{name}").expect(1)
        assert f"write /nonexistent/{name}" in answer.stderr
    assert "10000" in probing("-t", busy.pid, "record", "-r", 20_000).expect(2).stderr
    assert "speedscope" in probing("-t", busy.pid, "record", "-f", "xml").expect(2).stderr
    assert ".svg" in probing("-t", busy.pid, "flamegraph", "-o", "x.png").expect(2).stderr
    assert "Python" in probing("-t", target("wait", c=True).pid, "top", "--once").expect(1).stderr


# ── in probingd ──────────────────────────────────────────────────────────────────────────────


def test_the_daemon_records_without_a_probe(probing: Cli, target: StartTarget) -> None:
    busy = target("shares")
    probing("status").expect(0)  # starts it
    profile = ask_daemon("POST", "profile", {"target": busy.pid, "seconds": 0.5, "hz": 200})
    samples = profile["samples"]
    assert len({len(column) for column in samples.values()}) == 1
    assert sum(samples["weight"]) == pytest.approx(100, abs=20)
    names = [profile["frames"][frame]["func"] for frame in profile["stacks"][samples["stack"][0]]]
    assert names[:2] == ["<module>", "train"]
    assert profile["threads"][samples["thread"][0]]["tid"] == busy.pid
    assert ask_daemon("POST", "profile", {"target": busy.pid, "hz": 1e9})["error"]["code"] == "usage"
    assert ask_daemon("POST", "profile", {"target": 4194303})["error"]["code"] == "not_found"


def test_a_target_is_sampled_while_its_setting_says_so(probing: Cli, target: StartTarget) -> None:
    busy = target("shares")
    probing("-t", busy.pid, "config", "probing.sample_rate=0.01").expect(0)
    wait_until(lambda: ask_daemon("GET", f"samples?target={busy.pid}")["samples_taken"] > 20)
    samples = ask_daemon("GET", f"samples?target={busy.pid}")
    assert any("hot (" in row["stack"][-1] for row in samples["folded"])
    assert all(row["tid"] == busy.pid and row["has_gil"] in (True, False) for row in samples["folded"])
    probing("-t", busy.pid, "config", "probing.sample_rate=0").expect(0)
    assert "not sampled" in ask_daemon("GET", f"samples?target={busy.pid}")["error"]["message"]
    assert probing("-t", busy.pid, "config", "probing.sample_rate=0.0001").code == 2
    assert probing("config", "probing.sample_rate=1").code == 2
    busy.expect_unharmed()


def ticks_of(collapsed: str) -> dict[str, int]:
    """How often each innermost function was seen."""
    ticks: dict[str, int] = {}
    for line in collapsed.splitlines():
        stack, count = line.rsplit(" ", 1)
        name = stack.split(";")[-1].split(" ")[0]
        ticks[name] = ticks.get(name, 0) + int(count)
    return ticks


def test_any_interval_of_what_is_sampled_all_the_time_is_a_profile(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    busy = target("shares")
    probing("-t", busy.pid, "config", "probing.sample_rate=0.01").expect(0)
    wait_until(lambda: samples_taken(busy.pid) > 300, 30, "three seconds were sampled")
    record = ("-t", busy.pid, "record", "-f", "collapsed", "-o", "-")
    ticks = ticks_of(probing(*record, "--last", "1s").expect(0).stdout)
    assert set(ticks) >= {"hot"} and 50 <= sum(ticks.values()) <= 102, ticks
    now = time.time()
    second = [time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now - ago)) for ago in (2, 1)]
    ticks = ticks_of(probing(*record, "--from", second[0], "--to", second[1]).expect(0).stdout)
    assert 50 <= sum(ticks.values()) <= 102, ticks
    everything = ticks_of(probing(*record, "--last", "1h").expect(0).stdout)
    assert sum(everything.values()) > 250
    svg = tmp_path / "last.svg"
    probing("-t", busy.pid, "flamegraph", "--from", "2s", "--to", "1s", "-o", svg).expect(0)
    assert "hot (" in svg.read_text()
    before = probing(*record, "--from", "2h", "--to", "1h")
    assert before.code == 1 and "there is no sample" in before.stderr and "the oldest is" in before.stderr
    for wrong in (
        ["--last", "5x"],
        ["--last", "1m", "-d", "3"],
        ["--from", "soon"],
        ["--to", "2h", "--from", "1h"],
    ):
        assert probing(*record, *wrong).code == 2, wrong
    other = target("shares")
    unknown = probing("-t", other.pid, "record", "--last", "1m", "-o", "-")
    assert unknown.code == 1 and "is not sampled all the time" in unknown.stderr


def test_samples_keep_within_their_memory(probing: Cli, target: StartTarget) -> None:
    probing("config", "probing.sample_memory=64KB").expect(0)  # 1024 samples
    busy = target("shares")
    probing("-t", busy.pid, "config", "probing.sample_rate=0.002").expect(0)
    wait_until(
        lambda: ask_daemon("GET", f"samples?target={busy.pid}")["lost"]["dropped"] > 0,
        40,
        "old ones make room",
    )
    sql = "SELECT count(*) AS n FROM python.samples"
    (counted,) = probing("-t", busy.pid, "query", "-f", "json", sql).expect(0).json
    assert 0 < counted["n"] <= 1024
    probing("config", "probing.sample_memory=22MB").expect(0)


def samples_taken(pid: int) -> int:
    return int(ask_daemon("GET", f"samples?target={pid}").get("samples_taken", 0))


def test_a_probed_target_is_sampled_until_the_probe_leaves(probing: Cli, target: StartTarget) -> None:
    busy = target("shares")
    probing("-t", busy.pid, "inject").expect(0)
    wait_until(lambda: samples_taken(busy.pid) > 2, 20, "samples are taken")
    assert probing("-t", busy.pid, "config", "probing.sample_rate").expect(0).stdout == "0.1\n"
    probing("-t", busy.pid, "eject").expect(0)
    wait_until(lambda: "error" in ask_daemon("GET", f"samples?target={busy.pid}"), 20, "sampling ends")
    busy.expect_unharmed()


@pytest.mark.parametrize("variable", ["PROBE_PPROF", "PROBING_SAMPLE_RATE"])
def test_the_environment_can_forbid_sampling(probing: Cli, target: StartTarget, variable: str) -> None:
    other, quiet = target("shares"), target("shares", **{variable: "0"})
    for started in (quiet, other):  # in this order they are looked at
        probing("-t", started.pid, "inject").expect(0)
    wait_until(lambda: samples_taken(other.pid) > 2, 20, "the other one is sampled")
    assert samples_taken(quiet.pid) == 0
    assert probing("-t", quiet.pid, "config", "probing.sample_rate").expect(0).stdout == "0\n"


def test_a_program_that_was_run_with_the_wish_is_sampled_at_once(probing: Cli, target: StartTarget) -> None:
    for daemon in harness.daemons([probing.bin]):
        harness.stop_process(daemon)
    busy = target("shares", prefix=[str(probing.bin / "probing"), "run", "--"], PROBE_PPROF="1")
    wait_until(lambda: harness.daemons([probing.bin]), what="probingd was started")
    wait_until(lambda: ask_daemon("GET", f"samples?target={busy.pid}").get("samples_taken", 0) > 2, 20)


# ── lines ────────────────────────────────────────────────────────────────────────────────────


def test_a_heat_map_has_lines_with_their_text_and_their_callers(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    shares = target("shares")
    path = tmp_path / "lines.html"
    record(probing, shares.pid, "-f", "heatmap", "-o", path)
    page = path.read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    [file] = [one for one in data["files"] if one["short"] == "target_shares.py"]
    source = (harness.TARGETS / "target_shares.py").read_text().splitlines()
    texts = dict(file["source"])
    assert all(source[number - 1] == text for number, text in texts.items())
    lines = {line[0]: line for line in file["lines"]}
    assert set(lines) <= set(texts)
    hottest = max(lines.values(), key=lambda line: line[1])
    assert hottest[3] in FUNCTIONS
    # Who called it: the line of train() that calls each in turn.
    [*_, callers, _] = hottest
    assert callers and all("function(" in texts[number] for _, number, _ in callers)
    assert sum(line[1] for one in data["files"] for line in one["lines"]) == data["total"]
