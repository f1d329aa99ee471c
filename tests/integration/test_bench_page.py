"""The page of benchmarks: every kind of result has its plots; what was not measured is not there."""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import bench_page
import pytest
from bench_plot import to_html

RANGE = [-0.1, 0.1]
MACHINE = {"machine": "a machine"}
# As the scripts write them, in short.
RESULTS: dict[str, dict[str, object]] = {
    "inject-1": MACHINE
    | {
        "rows": [
            {"tool": "probing inject", "threads": 1, "wall_p50_ms": 12.0, "held_p50_ms": 0.2},
            {"tool": "probing backtrace", "threads": 1, "wall_p50_ms": 4.0, "held_p50_ms": 0.0},
            {"tool": "gdb <attach>", "threads": 1, "wall_p50_ms": 400.0, "held_p50_ms": 0.0},
        ],
        "inject": {"held_us_p50": 88, "held_us_p99": 156, "rss_added_kb": 1216, "threads_added": 1},
        "eval": {"wall_ms_p50": 2.1, "inside_us_p50": 310},
        "peers_added_kb": {"PyPI probing": 24576},
    },
    "sampling-1": MACHINE
    | {
        "options": {"threads": 150, "rate": 100},
        "rows": [{"tool": "probing record", "sampler_cpu_percent": 4.6, "slower_percent": -2.0}],
    },
    "flight_recorder": MACHINE | {"readings": 60, "median_ms": 19.7, "worst_ms": 21.0, "percent": 0.39},
    "torch_profile": MACHINE
    | {kind: {"ms": 7.5, "steps": 150} for kind in ("before", "by hand", "ours", "after")},
    "heap": MACHINE | {"objects": 2_000_000, "runs": 5, "median_s": 3.4, "peak_mb": 523.0},
    "truth": MACHINE
    | {
        "wrong": [],
        "rows": [
            {"python": "3.8", "kind": "calls", "hz": 100, "runs": 100, "right": 99, "mean_off": 0.01},
            {"python": "3.8", "kind": "native", "hz": 100, "runs": 100, "right": 98, "mean_off": -0.02},
        ],
    },
    "start_hook-1": MACHINE
    | {
        "runs": 3,
        "rows": [
            {"case": "hooked", "wall_ms": 12.0, "wall_more_ms": 0.01, "wall_range_ms": RANGE}
            | {"cpu_ms": 10.0, "cpu_more_ms": 0.01, "cpu_range_ms": RANGE}
        ],
    },
    "torch_steps-1": {
        "about": {"torch": "2", "python": "3.11", "cpus": 2},
        "bounds": {"mlp": {"idle": 0.1}},
        "results": {"mlp": {"idle": {"cpu": [0.02, 0.01, 0.03], "wall": [0.02, -0.1, 0.3]}}},
        "idle_threads_percent": {"mlp": 0.01},
    },
    "query-1": MACHINE
    | {
        "questions": {"select 1": {"HTTP": {"p50_ms": 0.1}, "peer inside": None}},
        "figures": {"ns a row": 3.8},
    },
    "server": MACHINE | {"rss_kb": 2048, "rows": [{"what": "health", "p50_ms": 0.09, "p99_ms": 0.3}]},
    "talk": MACHINE
    | {
        "rows": [
            {"what": "first prompt", "value": 42.0, "unit": "ms", "bound": 150},
            {"what": "a watched line", "value": 1.7, "unit": "%", "bound": 3},
        ]
    },
    "cluster": MACHINE
    | {
        "rows": [
            {"what": "8 hosts", "ranks": 64, "p50_ms": 30.0, "worst_ms": 50.0}
            | {"bytes": 4096, "answered": 8, "expected": 8}
        ]
    },
    "fleet-1": MACHINE
    | {
        "ranks": 10000,
        "sending": {"rows/s": 9990.0, "sink, cores": 0.2, "server, cores": 0.3},
        "asking": {"rows": 36000000, "slowest ranks, s, median": 0.7},
    },
    "diagnose-1": {
        "world": 4,
        "healthy": 3,
        "alarmed": 1,
        "alarms": {"ddp none": [{"class": "nan"}, {"class": "hang"}]},
        "rows": [
            {"trouble": "gil", "class": "hang", "runs": 3, "right": 3, "median_s": 6.5, "worst_s": 11.5},
            {"trouble": "nan", "class": "nan", "runs": 3, "right": 0, "median_s": None, "worst_s": None},
        ],
    },
}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path


def test_what_was_not_measured_has_no_section(results: Path) -> None:
    page = bench_page.page(results)
    assert page.count("## ") == 0
    assert "<svg" not in page


def test_publishing_keeps_the_date_of_a_result(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_page, "RESULTS", results)
    monkeypatch.setattr(bench_page, "PUBLISHED", results / "published")
    monkeypatch.setattr(bench_page, "PAGE", results / "benchmarks.md")
    path = results / "server.json"
    path.write_text(json.dumps(RESULTS["server"]))
    os.utime(path, (1_700_000_000, 1_700_000_000))
    bench_page.publish()
    kept = json.loads((results / "published/server.json").read_text())
    assert kept == RESULTS["server"] | {"date": "2023-11-14 22:13 UTC"}
    assert "2023-11-14 22:13 UTC" in (results / "benchmarks.md").read_text()


def test_the_committed_page_is_made_from_committed_results_with_date_and_machine() -> None:
    page = bench_page.PAGE.read_text()
    assert page == bench_page.page()
    assert page.count("\n## ") == len(list(bench_page.PUBLISHED.glob("*.json"))) > 0
    assert page.count("Machine: ") == page.count("\n## ")
    assert not re.search("not (measured|recorded)", page, re.IGNORECASE)


def test_every_kind_of_result_is_shown(results: Path) -> None:
    for name, content in RESULTS.items():
        (results / f"{name}.json").write_text(json.dumps(content))
    page = bench_page.page(results)
    plots = re.findall(r"<svg.*?</svg>", page)
    sections = page.split("\n## ")[1:]
    assert len(sections) == len(bench_page.SECTIONS)
    assert [section for section in sections if "<svg" not in section] == []
    for plot in plots:
        ElementTree.fromstring(plot)
    for text in (
        "12 ms",
        "gdb &lt;attach&gt;",
        "0.088 ms",
        "24 MB",
        "4.6 %",
        "197 of 200 runs within the 99 % interval",
        "+0.010 ms",
        "| +0.02 (+0.01 … +0.03)",
    ):
        assert text in page
    for text in (
        "limit 20 ms",
        "0.09 ms",
        "42 ms",
        "8 of 8",
        "10,000 ranks",
        "torch 2, python 3.11",
        "2 of 3",
    ):
        assert text in page
    assert "| 2 of 3" in page
    assert page.count("Machine: ") == len(bench_page.SECTIONS)


def test_the_page_beside_the_results_is_one_whole_file(results: Path) -> None:
    (results / "server.json").write_text(json.dumps(RESULTS["server"]))
    html = to_html("x", bench_page.blocks(results))
    assert "<h2>Answers over HTTP</h2>" in html and "<svg" in html
    assert not re.search(r"(src|href)=", html)


def test_every_script_that_writes_results_has_a_section() -> None:
    scripts = {str(path.relative_to(bench_page.ROOT)) for path in (bench_page.ROOT / "bench").glob("*.py")}
    writers = {name for name in scripts if "bench/results" in (bench_page.ROOT / name).read_text()}
    writers.remove("bench/ring_python.py")  # query.py has its figures
    assert {section.script for section in bench_page.SECTIONS.values()} == writers
    makefile = (bench_page.ROOT / "Makefile").read_text()
    named = re.search(r"^BENCHES := (.*)", makefile, re.MULTILINE)
    assert named is not None
    assert {f"bench/{name}.py" for name in [*named[1].split(), "torch_steps", "diagnose", "truth"]} == writers


def test_the_newest_result_counts(results: Path) -> None:
    for number, name in enumerate(("sampling-b", "sampling-a")):
        (results / f"{name}.json").write_text("{}")
        os.utime(results / f"{name}.json", (number, number))
    assert bench_page.newest("sampling", results) == results / "sampling-a.json"
