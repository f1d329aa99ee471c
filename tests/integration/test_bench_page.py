"""The page of benchmarks: every kind of result has its plots, and what was not measured is called so."""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import bench_page
import pytest

RANGE = [-0.1, 0.1]
RESULTS = {
    "inject-1": {
        "machine": "a machine",
        "rows": [
            {"tool": "probing inject", "threads": 1, "wall_p50_ms": 12.0, "held_p50_ms": 0.2},
            {"tool": "gdb <attach>", "threads": 1, "wall_p50_ms": 400.0, "held_p50_ms": 0.0},
        ],
        "inject": {"held_us_p50": 88, "held_us_p99": 156, "rss_added_kb": 1216, "threads_added": 1},
        "eval": {"wall_ms_p50": 2.1},
    },
    "sampling-1": {
        "machine": "a machine",
        "options": {"threads": 150, "rate": 100},
        "rows": [{"tool": "probing record", "sampler_cpu_percent": 4.6, "slower_percent": -2.0}],
    },
    "start_hook-1": {
        "machine": "a machine",
        "runs": 3,
        "rows": [
            {"case": "hooked", "wall_ms": 12.0, "wall_more_ms": 0.01, "wall_range_ms": RANGE}
            | {"cpu_ms": 10.0, "cpu_more_ms": 0.01, "cpu_range_ms": RANGE}
        ],
    },
    "torch_steps-1": {
        "about": {"torch": "2", "python": "3.11", "cpus": 2},
        "results": {"mlp": {"traced": [1.02, 1.01, 1.03]}},
    },
    "query-1": {
        "questions": {"select 1": {"HTTP": {"p50_ms": 0.1}, "peer inside": None}},
        "figures": {"ns a row": 3.8},
    },
    "server": {"machine": "a machine", "rss_kb": 2048, "rows": [{"what": "health", "p50_ms": 0.09}]},
}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bench_page, "RESULTS", tmp_path)
    return tmp_path


def test_without_results_every_section_says_who_would_write_them(results: Path) -> None:
    page = bench_page.page()
    assert page.count("Not measured here yet") == len(bench_page.SECTIONS)
    assert "<svg" not in page


def test_every_kind_of_result_is_shown(results: Path) -> None:
    for name, content in RESULTS.items():
        (results / f"{name}.json").write_text(json.dumps(content))
    page = bench_page.page()
    assert "Not measured" not in page
    plots = re.findall(r"<svg.*?</svg>", page)
    assert len(plots) == 6
    for plot in plots:
        ElementTree.fromstring(plot)
    for text in ("12 ms", "gdb &lt;attach&gt;", "88 µs", "4.6 %", "+0.010 ms", "| traced | 1.020", "0.09 ms"):
        assert text in page


def test_the_newest_result_counts(results: Path) -> None:
    for number, name in enumerate(("sampling-b", "sampling-a")):
        (results / f"{name}.json").write_text("{}")
        os.utime(results / f"{name}.json", (number, number))
    assert bench_page.newest("sampling") == results / "sampling-a.json"
