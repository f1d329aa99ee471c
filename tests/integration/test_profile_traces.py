"""A trace of torch.profiler as a target: the same tables, whoever has recorded it."""

from __future__ import annotations

import gzip
import json
import os
import xml.etree.ElementTree as ElementTree
from bisect import bisect_left
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli

TRACES = sorted((Path(__file__).parent / "traces").glob("*.json.gz"))
RECORDED = sorted(
    (harness.ROOT.parent / "shared/data/kineto").glob("*.json.gz")
)  # whole ones, where they are
OF_GPU = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset", "cuda_sync": "sync"}

pytestmark = pytest.mark.slow(300)


def ask(probing: Cli, path: Path, sql: str) -> list[dict[str, Any]]:
    return json.loads(probing("-t", path, "query", "-f", "json", sql).expect(0).stdout)


def expected_of(path: Path) -> tuple[Counter, dict[str, float], Counter, int]:
    """Of the JSON: numbers of GPU events by kind, their time in us, (op, kernel) pairs, number of ops."""
    with gzip.open(path) as file:
        events = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
    ops = defaultdict(list)  # by thread
    by_id, launches = {}, {}
    for event in events:
        if event.get("cat") == "cpu_op":
            ops[event["tid"]].append(event)
            by_id.setdefault(event["args"]["External id"], event)
        if event.get("cat") in ("cuda_runtime", "cuda_driver"):
            launches.setdefault(event["args"]["correlation"], event)
    # The shortest operator around the beginning of a call, thread by thread: the longest are noted first.
    made_by = {}
    for thread, of_thread in ops.items():
        calls = sorted((e for e in launches.values() if e["tid"] == thread), key=lambda call: call["ts"])
        begins = [call["ts"] for call in calls]
        for op in sorted(of_thread, key=lambda op: -op["dur"]):
            for i in range(bisect_left(begins, op["ts"]), bisect_left(begins, op["ts"] + op["dur"])):
                made_by[calls[i]["args"]["correlation"]] = op
    counts: Counter = Counter()
    times: dict[str, float] = defaultdict(float)
    pairs: Counter = Counter()
    for event in events:
        kind = OF_GPU.get(event.get("cat"))
        if kind is None:
            continue
        counts[kind] += 1
        times[kind] += event["dur"]
        correlation = event["args"].get("correlation")
        known = made_by if correlation in launches else by_id
        op = known.get(correlation if known is made_by else event["args"].get("External id"))
        pairs[(op["name"] if op else None, event["name"])] += 1
    return counts, times, pairs, sum(map(len, ops.values()))


def test_every_column_of_kernels_has_values_in_some_trace(probing: Cli, tmp_path: Path) -> None:
    with gzip.open(TRACES[0]) as file:
        trace = json.load(file)
    for event in trace["traceEvents"]:  # as torch writes it with modules, which none of the recorded ones has
        if event.get("cat") == "cpu_op":
            event["args"]["Module Hierarchy"] = "top.layer"
    with_modules = tmp_path / "modules.json"
    with_modules.write_text(json.dumps(trace))
    sql = "SELECT column_name FROM probing.columns WHERE table_name = 'gpu.kernels'"
    names = [row["column_name"] for row in ask(probing, TRACES[0], sql)]
    counts: Counter = Counter()
    for path in [*TRACES, with_modules]:
        counted = ", ".join(f"count({name}) AS {name}" for name in names)
        counts.update(ask(probing, path, f"SELECT {counted} FROM gpu.kernels")[0])
    assert [name for name in names if counts[name] == 0] == ["job"], "a file is of no job"


@pytest.mark.parametrize("path", TRACES + RECORDED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_kernels_their_time_and_operators_are_those_of_the_json(probing: Cli, path: Path) -> None:
    counts, times, pairs, operators = expected_of(path)
    rows = ask(
        probing, path, "SELECT kind, count(*) AS n, sum(duration_us) AS us FROM gpu.kernels GROUP BY kind"
    )
    found = {row["kind"]: row for row in rows if row["kind"] != "annotation"}
    assert {kind: row["n"] for kind, row in found.items()} == counts
    for kind, row in found.items():
        assert row["us"] == pytest.approx(times[kind], rel=1e-9)
    rows = ask(
        probing,
        path,
        "SELECT op, name, count(*) AS n FROM gpu.kernels WHERE kind <> 'annotation' GROUP BY op, name",
    )
    assert Counter({(row["op"], row["name"]): row["n"] for row in rows}) == pairs
    assert ask(probing, path, "SELECT count(*) AS n FROM python.torch_ops WHERE kind = 'op'") == [
        {"n": operators}
    ]


def test_rank_time_and_steps_come_from_the_trace(probing: Cli) -> None:
    nccl = next(path for path in TRACES if path.name.startswith("nccl"))
    rows = ask(
        probing,
        nccl,
        "SELECT min(timestamp)::VARCHAR AS first, any_value(rank) AS rank FROM python.torch_ops",
    )
    assert rows[0]["rank"] == 0 and rows[0]["first"].startswith("2024-05-23 00:15:22"), rows
    rocm = next(path for path in TRACES if path.name.startswith("minitoy"))
    assert {row["step"] for row in ask(probing, rocm, "SELECT DISTINCT step FROM gpu.kernels")} >= {1}


def test_the_views_agree_with_each_other(probing: Cli) -> None:
    for path in TRACES:
        for row in ask(probing, path, "SELECT * FROM gpu.utilization"):
            assert 0 <= row["busy_us"] <= row["span_us"] and row["idle_us"] >= 0
            assert row["exposed_us"] + row["overlapped_us"] == pytest.approx(
                row["communication_us"], abs=0.01
            )
        by_kernel = ask(
            probing, path, "SELECT sum(total_us) AS us, sum(share) AS share FROM gpu.kernel_costs"
        )
        whole = "SELECT sum(duration_us) AS us FROM gpu.kernels WHERE kind IN ('kernel', 'memcpy', 'memset')"
        assert by_kernel[0]["us"] == pytest.approx(ask(probing, path, whole)[0]["us"])
        assert by_kernel[0]["share"] == pytest.approx(1)
        assert ask(probing, path, "SELECT count(*) AS n FROM gpu.launches WHERE min_us > max_us") == [
            {"n": 0}
        ]
        for row in ask(
            probing, path, "SELECT step, sum(share) AS share FROM python.critical_path GROUP BY step"
        ):
            assert row["share"] == pytest.approx(1)


def test_the_biggest_costs_are_told_in_words(probing: Cli, tmp_path: Path) -> None:
    nccl = next(path for path in TRACES if path.name.startswith("nccl"))
    text = probing("-t", nccl, "profile").expect(0).stdout
    assert "The biggest costs:" in text and "GPU 0" in text and "  5. " in text, text
    report = probing("-t", nccl, "profile", "--json").expect(0).json
    costs = [cost["us"] for cost in report["costs"]]
    assert len(costs) == 5 and costs == sorted(costs, reverse=True)
    picture = tmp_path / "ops.svg"
    probing("-t", nccl, "flamegraph", "-o", picture).expect(0)
    assert "aten::" in picture.read_text()
    ElementTree.parse(picture)
    assert "gpu_idle" in probing("-t", TRACES[0], "diagnose").expect(0).stdout


def test_traces_of_several_ranks_are_one_job(probing: Cli, tmp_path: Path) -> None:
    with gzip.open(TRACES[0]) as file:
        trace = json.load(file)
    for rank in (0, 1):
        trace["distributedInfo"] = {"rank": rank}
        (tmp_path / f"host_{rank}.1.pt.trace.json").write_text(json.dumps(trace))
    counts = expected_of(TRACES[0])[0]
    rows = ask(
        probing, tmp_path, "SELECT rank, count(*) AS n FROM gpu.kernels WHERE kind = 'kernel' GROUP BY ALL"
    )
    assert sorted((row["rank"], row["n"]) for row in rows) == [(0, counts["kernel"]), (1, counts["kernel"])]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is no trace"),
        (b"hello", "it is not JSON at byte"),
        (b'{"traceEvents": []}', "without events of torch.profiler"),
        (b"[" * 1000, "levels deep"),
        (b'{"a": "' + b"x" * (17 << 20) + b'"}', "more than 16 MB"),
        (gzip.compress(b'{"traceEvents": [')[:-4], "too early"),
        (b"\x1f\x8b" + b"x" * 100, "damaged"),
    ],
    ids=["empty", "text", "no_events", "deep", "long", "cut", "damaged"],
)
def test_a_file_that_is_no_trace_is_said_to_be_none(
    probing: Cli, tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    answer = probing("-t", path, "query", "SELECT 1").expect(1)
    assert message in answer.stderr and str(path) in answer.stderr and "hint" in answer.stderr


def test_a_trace_that_was_cut_off_gives_what_there_is_and_says_so(probing: Cli, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.decompress(TRACES[0].read_bytes())[:-20_000])
    answer = probing("-t", path, "query", "-f", "csv", "SELECT count(*) > 100 FROM python.torch_ops").expect(
        0
    )
    assert "true" in answer.stdout and "ends too early" in answer.stderr


def test_events_beyond_the_limit_are_counted(probing: Cli, tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(TRACES[0].read_bytes())
    probing("config", "probing.trace.events=100").expect(0)
    try:
        sql = "SELECT (SELECT count(*) FROM python.torch_ops) + (SELECT count(*) FROM gpu.kernels)"
        answer = probing("-t", path, "query", "-f", "csv", sql).expect(0)
        assert "100" in answer.stdout and "no more than 100 are read" in answer.stderr
        with gzip.open(path) as file:
            known = {"cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", *OF_GPU}
            events = sum(e["ph"] == "X" and e.get("cat") in known for e in json.load(file)["traceEvents"])
        assert f"{events - 100} of its events are left out" in answer.stderr
    finally:
        probing("config", "probing.trace.events=2000000").expect(0)


def test_a_big_trace_takes_little_memory(probing: Cli, tmp_path: Path) -> None:
    """Four fifths of it are what nothing is kept of: it is read as a stream."""
    path = tmp_path / "trace.json"
    with path.open("w") as file:
        file.write('{"traceEvents": [')
        for i in range(200_000):
            about = {"External id": i, "nothing": "x" * 400}
            event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "tid": 1, "ts": 10 * i, "dur": 1}
            file.write(json.dumps({**event, "args": about}) + ",")
        file.write('{"ph":"M","name":"end"}]}')
    assert os.path.getsize(path) > 90 << 20
    assert ask(probing, path, "SELECT count(*) AS n, sum(self_us) AS us FROM python.torch_ops") == [
        {"n": 200_000, "us": 200_000.0}
    ]
    peaks_kb = []
    for pid in harness.daemons([harness.BIN]):
        with open(f"/proc/{pid}/status") as file:
            peaks_kb.append(next(int(line.split()[1]) for line in file if line.startswith("VmHWM")))
    assert peaks_kb and max(peaks_kb) < 250 << 10  # 200,000 rows are some 100 MB while they are made
