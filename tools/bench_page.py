#!/usr/bin/env python3
"""The page with plots, from results of `make bench`: index.html beside those of this checkout
(bench/results), and the documentation's page from those that are committed (bench/published).

Each section has the method (what the script says about itself), the date, the machine, the peers and, as a
red line, what was promised. `bench_page.py publish` copies the newest results to bench/published, with
their dates, and makes docs/benchmarks.md from them.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_plot import Bar, Block, Heading, Plot, Table, to_html, to_markdown

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
PUBLISHED = ROOT / "bench/published"  # committed, each with its date
PAGE = ROOT / "docs/benchmarks.md"  # made from them, committed, too
TITLE = "Benchmarks: overhead and speed beside py-spy, austin, pystack, gdb"
ABOUT = (
    "Results of `make bench`, each with its date and machine. Medians; bars are on a logarithmic scale, the "
    "red line is what is promised. Figures of a busy machine are upper bounds: compare ratios."
)
Content = dict[str, Any]


def entering(content: Content) -> list[Block]:
    blocks: list[Block] = []
    for threads in sorted({row["threads"] for row in content["rows"]}):
        rows = [row for row in content["rows"] if row["threads"] == threads]
        number = f"{threads} thread{'s' if threads > 1 else ''}"
        entered = [row for row in rows if row["tool"].startswith(("probing inject", "gdb"))]
        stacks = [row for row in rows if row not in entered and not row["tool"].startswith("(")]
        for what, some, most in (("entering", entered, 20), ("stacks", stacks, 10)):
            limit = most if threads == 1 else None
            walls, held = (
                [Bar(row["tool"], row[f"{key}_p50_ms"]) for row in some] for key in ("wall", "held")
            )
            blocks.append(Plot(f"{what}, whole command, {number}", walls, "ms", limit))
            if any(bar.value for bar in held):
                title = f"{what}, target held (the longest gap that it saw itself), {number}"
                blocks.append(Plot(title, held, "ms"))
    inside, evaluation = content["inject"], content["eval"]
    held = [Bar(f"probing inject, {q}", inside[f"held_us_{q}"] / 1000) for q in ("p50", "p99")]
    added = [Bar("probing", inside["rss_added_kb"] / 1024)]
    added += [Bar(who, kb / 1024) for who, kb in content.get("peers_added_kb", {}).items()]
    evaluated = [Bar("probing eval, inside", evaluation["inside_us_p50"] / 1000)]
    evaluated.append(Bar("probing eval, whole command", evaluation["wall_ms_p50"]))
    return [
        *blocks,
        Plot("thread held, by the injector's clock", held, "ms", 0.2),
        Plot("memory added to the target", added, "MB", 5),
        Plot("eval under a busy GIL", evaluated, "ms", 5),
    ]


def sampling(content: Content) -> list[Block]:
    options = content["options"]
    rows = [row for row in content["rows"] if not row["tool"].startswith("(")]
    return [
        f"{options['threads']} threads, {options['rate']:g} times a second.",
        *(
            Plot(title, [Bar(row["tool"], row[key]) for row in rows], "%", limit)
            for title, key, limit in (
                ("CPU of the sampler, of a core", "sampler_cpu_percent", 5),
                ("what the target loses (below zero: nothing that could be measured)", "slower_percent", 1),
            )
        ),
    ]


def truth(content: Content) -> list[Block]:
    rows = content["rows"]
    by_program: dict[str, list[Content]] = {}
    for row in rows:
        by_program.setdefault(row["kind"], []).append(row)
    right, off = [], []
    for program, some in by_program.items():
        runs = sum(row["runs"] for row in some)
        right.append(Bar(program, 100 * sum(row["right"] for row in some) / runs))
        off.append(Bar(program, 100 * abs(sum(row["mean_off"] * row["runs"] for row in some)) / runs))
    runs, good = (sum(row[key] for row in rows) for key in ("runs", "right"))
    wrong = "; ".join(content["wrong"]) or "no more misses than chance allows"
    return [
        f"{good} of {runs} runs within the 99 % interval of the truth: {wrong}.",
        Plot("runs within the interval (99 % are expected, 98 % promised)", right, "%"),
        Plot("how far shares are off, mean of all runs", off, "points"),
    ]


def query(content: Content) -> list[Block]:
    names = {"HTTP": "probing, HTTP", "command": "probing, command", "DuckDB": "DuckDB in its own process"}
    names |= {"peer inside": "PyPI probing, in the target", "peer command": "PyPI probing, command"}
    limits = {"select 1": 0.5, "10 k": 2, "1 M": 20}  # over HTTP
    blocks: list[Block] = []
    for question, row in content["questions"].items():
        bars = [Bar(names.get(who, who), times["p50_ms"] if times else None) for who, times in row.items()]
        limit = next((most for begin, most in limits.items() if question.startswith(begin)), None)
        blocks.append(Plot(f"{question} (the limit is for HTTP)", bars, "ms", limit))
    figures = [[name, f"{value:.1f}"] for name, value in content["figures"].items()]
    return [*blocks, Table(["figure", ""], figures)]


def server(content: Content) -> list[Block]:
    bars = {
        key: [Bar(f"probing: {row['what']}", row[key]) for row in content["rows"] if key in row]
        for key in ("p50_ms", "p99_ms")
    }
    return [
        Plot("an answer, median", bars["p50_ms"], "ms"),
        Plot("an answer, 99 %", bars["p99_ms"], "ms", 10),
        f"probingd takes {content['rss_kb'] / 1024:.1f} MB then.",
    ]


def torch(content: Content) -> list[Block]:
    """A plot of CPU time, beside peers, and a table with both clocks and what is allowed."""
    blocks: list[Block] = [
        "How much longer a step is, with the range of 95 % of such estimates from steps drawn again. What is"
        " allowed is meant for the upper end of CPU time."
    ]
    for model, rows in content["results"].items():
        bounds = content.get("bounds", {}).get(model, {})
        bars, cells = [], []
        for row, clocks in rows.items():
            middle, low, high = clocks["cpu"]
            peer = row.startswith(("nothing", "torch.", "py-spy", "PyPI"))
            bars.append(Bar(row if peer else f"probing: {row}", middle, f"({low:+.2f} … {high:+.2f})"))
            ranges = ["{:+.2f} ({:+.2f} … {:+.2f})".format(*clocks[clock]) for clock in ("cpu", "wall")]
            cells.append([row, *ranges, f"{bounds[row]:g}" if row in bounds else ""])
        blocks.append(Plot(f"{model}: CPU time of a step, more", bars, "%"))
        blocks.append(Table(["percent more", "CPU time", "time that passes", "allowed"], cells))
        if model in content.get("idle_threads_percent", {}):
            share = content["idle_threads_percent"][model]
            blocks.append(f"Idle, by the CPU time of the probe's own threads: {share:.4f} %.")
    return blocks


def start_hook(content: Content) -> list[Block]:
    rows = []
    for row in content["rows"]:
        cells = [row["case"]]
        for kind in ("wall", "cpu"):
            low, high = row[f"{kind}_range_ms"]
            more = f"{row[f'{kind}_more_ms']:+.3f} ms ({low:+.3f} … {high:+.3f})"
            cells += [f"{row[f'{kind}_ms']:.2f} ms", more]
        rows.append(cells)
    bars = [Bar(row["case"].replace("hooked", "probing: hooked"), row["wall_ms"]) for row in content["rows"]]
    headings = ["environment", "wall", "more than plain", "CPU", "more than plain"]
    return [
        f"{content['runs']} starts of each, in turn.",
        Plot("`python -c pass`", bars, "ms"),
        Table(headings, rows),
    ]


def flight_recorder(content: Content) -> list[Block]:
    times = [("median", content["median_ms"]), ("worst", content["worst_ms"])]
    return [
        f"{content['readings']} readings; one every five seconds takes {content['percent']:.2f} % of a core. "
        "It is read only on request.",
        Plot("CPU time of a reading", [Bar(name, value) for name, value in times], "ms"),
    ]


def heap(content: Content) -> list[Block]:
    command = "probing memory --heap"
    return [
        f"{content['objects']:,} objects, {content['runs']} readings.",
        Plot("whole command", [Bar(command, content["median_s"])], "s"),
        Plot("memory of the command", [Bar(command, content["peak_mb"])], "MB"),
    ]


def profile(content: Content) -> list[Block]:
    bars = [Bar(kind, content[kind]["ms"]) for kind in ("before", "by hand", "ours", "after")]
    return [
        f"{content['ours']['steps']} steps of a small transformer under `probing profile`.",
        Plot("CPU time of a step", bars, "ms"),
    ]


def talk(content: Content) -> list[Block]:
    rows = content["rows"]
    return [
        *(
            Plot(row["what"], [Bar("probing", row["value"])], row["unit"], row["bound"])
            for row in rows
            if row["unit"] == "ms"
        ),
        Plot(
            "a line that runs 100,000 times a second takes more (promised: 3 watched, 0.5 unwatched)",
            [Bar(f"probing: {row['what']}"[:44], row["value"]) for row in rows if row["unit"] == "%"],
            "%",
        ),
    ]


def cluster(content: Content) -> list[Block]:
    bars = {
        key: [Bar(f"probing: {row['what']}, {row['ranks']} ranks", row[key]) for row in content["rows"]]
        for key in ("p50_ms", "worst_ms")
    }
    rows = [
        [row["what"], f"{row['answered']} of {row['expected']}", f"{row['bytes'] / 1024:.0f} KB"]
        for row in content["rows"]
    ]
    return [
        Plot("slowest ranks of all hosts, median", bars["p50_ms"], "ms"),
        Plot("the worst", bars["worst_ms"], "ms"),
        Table(["case", "hosts that answered", "sent to the asker"], rows),
    ]


def fleet(content: Content) -> list[Block]:
    sending, asking = content["sending"], content["asking"]
    cores = [Bar(f"probing: {name}", value) for name, value in sending.items() if name.endswith(", cores")]
    times = [Bar(f"probing: {name}", value) for name, value in asking.items() if name.startswith("slowest")]
    return [
        f"{content['ranks']:,} ranks, {sending['rows/s']:,.0f} rows/s; {asking['rows']:,} rows are asked.",
        Plot("cores that are busy while rows are sent", cores, "cores", 1),
        Plot("the slowest ranks of an hour, whole command", times, "s", 1),
    ]


def diagnose(content: Content) -> list[Block]:
    named = [row for row in content["rows"] if row["right"]]
    rows = [[row["trouble"], row["class"], f"{row['right']} of {row['runs']}"] for row in content["rows"]]
    rows.append(["healthy", "no alarm", f"{content['healthy'] - content['alarmed']} of {content['healthy']}"])
    plots = [
        Plot(title, [Bar(f"probing: {row['trouble']}", row[key]) for row in named], "s", 30)
        for title, key in (("until it is named, median", "median_s"), ("the worst", "worst_s"))
    ]
    return [
        f"Jobs of {content['world']} ranks.",
        *plots,
        Table(["what goes wrong", "class", "named rightly"], rows),
    ]


@dataclass(frozen=True)
class Section:
    title: str
    script: str
    draw: Callable[[Content], list[Block]]


# By how the files of results begin.
SECTIONS = {
    "inject": Section("Entering, held, memory, stacks", "bench/inject.py", entering),
    "sampling": Section("Sampling", "bench/sampling.py", sampling),
    "truth": Section("Shares of profiles", "bench/truth.py", truth),
    "torch_steps": Section("Tracing PyTorch", "bench/torch_steps.py", torch),
    "query": Section("Queries", "bench/query.py", query),
    "server": Section("Answers over HTTP", "bench/server.py", server),
    "talk": Section("REPL and log points", "bench/talk.py", talk),
    "cluster": Section("Many hosts", "bench/cluster.py", cluster),
    "fleet": Section("10,000 ranks through ClickHouse", "bench/fleet.py", fleet),
    "diagnose": Section("What is wrong, by name", "bench/diagnose.py", diagnose),
    "start_hook": Section("The start hook", "bench/start_hook.py", start_hook),
    "flight_recorder": Section(
        "Reading torch's Flight Recorder", "bench/flight_recorder.py", flight_recorder
    ),
    "heap": Section("Memory of a process", "bench/heap.py", heap),
    "torch_profile": Section("torch's profiler in a running job", "bench/torch_profile.py", profile),
}


def newest(kind: str, folder: Path) -> Path | None:
    found = [path for path in folder.glob("*.json") if re.fullmatch(rf"{kind}(-[\w-]+)?", path.stem)]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def when(path: Path, content: Content) -> str:
    """Committed results have their date in them; a checkout does not keep that of a file."""
    recorded = content.get("date")
    return (
        str(recorded)
        if recorded
        else time.strftime("%Y-%m-%d %H:%M", time.gmtime(path.stat().st_mtime)) + " UTC"
    )


def method(script: str) -> str:
    """What the script says about itself, without how it is called."""
    text = ast.get_docstring(ast.parse((ROOT / script).read_text())) or ""
    paragraphs = [part for part in text.split("\n\n") if not part.startswith("    ")]
    return " ".join(" ".join(paragraphs).split())


def machine(content: Content) -> str:
    about = content.get("about", {})
    told = content.get("machine") or ", ".join(f"{name} {value}" for name, value in about.items())
    load = f", at a load of {content['load'][1]:.0f}" if "load" in content else ""
    return f"Machine: {told or 'not recorded'}{load}."


def blocks(folder: Path) -> list[Block]:
    """Only what was measured."""
    found: list[Block] = [ABOUT]
    for kind, section in SECTIONS.items():
        path = newest(kind, folder)
        if path is None:
            continue
        content = json.loads(path.read_text())
        found.append(Heading(section.title))
        found += [f"`{section.script}`, {when(path, content)}. {machine(content)}", method(section.script)]
        found += section.draw(content)
    return found


def page(folder: Path = PUBLISHED) -> str:
    text = to_markdown(blocks(folder))
    return f"# {TITLE}\n\nWhat was measured besides, with the reasons: [Costs](costs.md).\n\n{text}"


def publish() -> None:
    """The newest result of each kind, with the date in it."""
    PUBLISHED.mkdir(exist_ok=True)
    for kind in SECTIONS:
        path = newest(kind, RESULTS)
        if path is None:
            continue
        content = json.loads(path.read_text())
        content["date"] = when(path, content)
        (PUBLISHED / f"{kind}.json").write_text(json.dumps(content, indent=1) + "\n")
        print(f"bench/published/{kind}.json: {content['date']}")
    PAGE.write_text(page(PUBLISHED))


def main() -> int:
    if sys.argv[1:] == ["publish"]:
        publish()
        return 0
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "index.html"
    path.write_text(to_html(TITLE, blocks(RESULTS)))
    print(f"{path.relative_to(ROOT)}: {len(list(RESULTS.glob('*.json')))} results")
    return 0


if __name__ == "__main__":
    sys.exit(main())
