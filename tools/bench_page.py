"""The page with plots, from the newest results of `make bench` in bench/results."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "bench/results"
LABEL_WIDTH, BAR_WIDTH, ROW_HEIGHT = 250, 330, 24
OURS = "probing"


@dataclass(frozen=True)
class Bar:
    label: str
    value: float | None  # None: it has no such thing


def svg(bars: list[Bar], unit: str) -> str:
    """Bars on a logarithmic scale, with the values written: tools differ by orders of magnitude."""
    values = [bar.value for bar in bars if bar.value is not None and bar.value > 0] or [1.0]
    low, high = math.floor(math.log10(min(values))) - 0.3, math.log10(max(values))
    width, height = LABEL_WIDTH + BAR_WIDTH + 110, ROW_HEIGHT * len(bars) + 6
    parts = [
        f'<svg viewBox="0 0 {width} {height}" role="img" style="max-width:{width}px;font:13px sans-serif">'
    ]
    for number, bar in enumerate(bars):
        y = ROW_HEIGHT * number + 3
        colour = "#4051b5" if bar.label.startswith(OURS) else "#9aa0b4"
        parts.append(f'<text x="{LABEL_WIDTH - 8}" y="{y + 15}" text-anchor="end" fill="currentColor">')
        parts[-1] += f"{escape(bar.label)}</text>"
        if bar.value is None:
            text, length = "–", 0.0
        else:
            text = f"{bar.value:.3g} {unit}"
            length = (
                BAR_WIDTH * (math.log10(bar.value) - low) / max(high - low, 0.1) if bar.value > 0 else 0.0
            )
        parts.append(
            f'<rect x="{LABEL_WIDTH}" y="{y + 3}" width="{max(length, 1):.0f}" height="15" fill="{colour}"/>'
        )
        parts.append(f'<text x="{LABEL_WIDTH + max(length, 1) + 6:.0f}" y="{y + 15}" fill="currentColor">')
        parts[-1] += f"{escape(text)}</text>"
    return "".join([*parts, "</svg>"])


def newest(kind: str) -> Path | None:
    found = sorted(RESULTS.glob(f"{kind}*.json"), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None


def inject(content: dict[str, Any]) -> list[str]:
    lines = [f"Machine: {content['machine']}. Held is the longest gap that the target itself saw.", ""]
    for threads in sorted({row["threads"] for row in content["rows"]}):
        rows = [row for row in content["rows"] if row["threads"] == threads]
        for what, key in (("whole command", "wall_p50_ms"), ("target held", "held_p50_ms")):
            lines += [f"**{what}, {threads} thread{'s' if threads > 1 else ''}**", ""]
            lines += [svg([Bar(row["tool"], row[key]) for row in rows], "ms"), ""]
    inside, evaluation = content["inject"], content["eval"]
    lines.append(
        f"By the injector's clock the thread is held for {inside['held_us_p50']:.0f} µs (99 %: "
        f"{inside['held_us_p99']:.0f} µs). The probe adds {inside['rss_added_kb'] / 1024:.1f} MB and "
        f"{inside['threads_added']} thread. `eval` answers in {evaluation['wall_ms_p50']:.1f} ms."
    )
    return lines


def sampling(content: dict[str, Any]) -> list[str]:
    options = content["options"]
    rows = [row for row in content["rows"] if not row["tool"].startswith("(")]
    return [
        f"Machine: {content['machine']}. {options['threads']} threads, {options['rate']} times a second.",
        *("", "**CPU of the sampler, in percent of a core**", ""),
        svg([Bar(row["tool"], row["sampler_cpu_percent"]) for row in rows], "%"),
        *("", "**what the target loses, in percent** (below zero: nothing that could be measured)", ""),
        svg([Bar(row["tool"], row["slower_percent"]) for row in rows], "%"),
    ]


def query(content: dict[str, Any]) -> list[str]:
    names = {"HTTP": "probing, HTTP", "command": "probing, command", "DuckDB": "DuckDB in its own process"}
    names |= {"peer inside": "PyPI probing, in the target", "peer command": "PyPI probing, command"}
    lines = []
    for question, row in content["questions"].items():
        bars = [Bar(names.get(who, who), times["p50_ms"] if times else None) for who, times in row.items()]
        lines += [f"**{question}**", "", svg(bars, "ms"), ""]
    figures = [f"| {name} | {value:.1f} |" for name, value in content["figures"].items()]
    return [*lines, "| figure | |", "|---|---|", *figures]


def server(content: dict[str, Any]) -> list[str]:
    bars = [Bar(f"probing: {row['what']}", row["p50_ms"]) for row in content["rows"]]
    memory = f"probingd takes {content['rss_kb'] / 1024:.1f} MB then."
    return [f"Machine: {content['machine']}. A request over TCP, median.", "", svg(bars, "ms"), "", memory]


def torch(content: dict[str, Any]) -> list[str]:
    about = content["about"]
    lines = [
        f"torch {about['torch']}, Python {about['python']}, {about['cpus']} cores. CPU time of a step",
        "",
    ]
    lines[0] += " as a multiple of one without tracing, with the range of 95 % of drawn medians."
    for model, rows in content["results"].items():
        lines += [f"**{model}**", "", "| mode | times | from | to |", "|---|---|---|---|"]
        lines += [f"| {mode} | {r:.3f} | {low:.3f} | {high:.3f} |" for mode, (r, low, high) in rows.items()]
        lines.append("")
    return lines


def start_hook(content: dict[str, Any]) -> list[str]:
    lines = [
        f"Machine: {content['machine']}. `python -c pass`, {content['runs']} starts of each, in turn.",
        "",
    ]
    lines += ["| environment | wall | more than plain | CPU | more than plain |", "|---|---|---|---|---|"]
    for row in content["rows"]:
        cells = [row["case"]]
        for kind in ("wall", "cpu"):
            low, high = row[f"{kind}_range_ms"]
            cells += [
                f"{row[f'{kind}_ms']:.2f} ms",
                f"{row[f'{kind}_more_ms']:+.3f} ms ({low:+.3f} … {high:+.3f})",
            ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


SECTIONS: dict[str, tuple[str, str, Callable[[dict[str, Any]], list[str]]]] = {
    "inject": ("Entering a process", "bench/inject.py", inject),
    "sampling": ("Sampling", "bench/sampling.py", sampling),
    "start_hook": ("The start hook", "bench/start_hook.py", start_hook),
    "torch_steps": ("Tracing PyTorch", "bench/torch_steps.py", torch),
    "query": ("Queries", "bench/query.py", query),
    "server": ("Answers over HTTP", "bench/server.py", server),
}


def page() -> str:
    lines = [
        "# Benchmarks",
        "",
        "Made from the newest results of `make bench` on the machine that built these pages.",
    ]
    lines += [
        "Medians; bars are on a logarithmic scale. Figures of a busy machine are upper bounds: compare",
        "ratios.",
        "",
    ]
    for kind, (title, script, draw) in SECTIONS.items():
        lines += [f"## {title}", ""]
        path = newest(kind)
        if path is None:
            lines += [f"Not measured here yet: `{script}` writes it.", ""]
            continue
        when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(path.stat().st_mtime))
        lines += [f"`{script}`, {when} UTC.", "", *draw(json.loads(path.read_text())), ""]
    return "\n".join(lines)
