"""What the page of benchmarks is made of: text, plots and tables, written as Markdown or as HTML."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

LABEL_WIDTH, BAR_WIDTH, ROW_HEIGHT = 250, 330, 24
OURS = "probing"


@dataclass(frozen=True)
class Bar:
    label: str
    value: float | None  # None: it has no such thing
    note: str = ""  # after the value


@dataclass(frozen=True)
class Plot:
    """Bars on a logarithmic scale, with the values written: tools differ by orders of magnitude."""

    title: str
    bars: list[Bar]
    unit: str
    limit: float | None = None  # what was promised: a line across the bars

    def svg(self) -> str:
        values = [bar.value for bar in self.bars if bar.value is not None]
        values = [value for value in [*values, self.limit or 0] if value > 0] or [1.0]
        low, high = math.floor(math.log10(min(values))) - 0.3, math.log10(max(values))

        def length(value: float) -> float:
            return max(BAR_WIDTH * (math.log10(value) - low) / max(high - low, 0.1), 1) if value > 0 else 1.0

        bottom = ROW_HEIGHT * len(self.bars) + 6
        room = 400 if any(bar.note for bar in self.bars) else 190  # for what is written after the bars
        width, height = LABEL_WIDTH + BAR_WIDTH + room, bottom + (18 if self.limit else 0)
        style = f"max-width:{width}px;font:13px sans-serif"
        parts = [f'<svg viewBox="0 0 {width} {height}" role="img" style="{style}">']
        for number, bar in enumerate(self.bars):
            y = ROW_HEIGHT * number + 3
            colour = "#4051b5" if bar.label.startswith(OURS) else "#9aa0b4"
            text = "–" if bar.value is None else f"{bar.value:.3g} {self.unit} {bar.note}".rstrip()
            size = length(bar.value or 0)
            parts += [
                label(LABEL_WIDTH - 8, y + 15, bar.label, "end"),
                f'<rect x="{LABEL_WIDTH}" y="{y + 3}" width="{size:.0f}" height="15" fill="{colour}"/>',
                label(LABEL_WIDTH + size + 6, y + 15, text),
            ]
        if self.limit:
            x = LABEL_WIDTH + length(self.limit)
            line = f'<line x1="{x:.0f}" x2="{x:.0f}" y1="0" y2="{bottom}" '
            parts.append(line + 'stroke="#c62828" stroke-dasharray="4 3"/>')
            parts.append(label(x, bottom + 12, f"limit {self.limit:g} {self.unit}", "middle"))
        return "".join([*parts, "</svg>"])


@dataclass(frozen=True)
class Table:
    headings: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Heading:
    text: str


Block = str | Plot | Table | Heading


def label(x: float, y: float, text: str, anchor: str = "start") -> str:
    place = f'x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"'
    return f'<text {place} fill="currentColor">{escape(text)}</text>'


def to_markdown(blocks: Iterable[Block]) -> str:
    lines: list[str] = []
    for block in blocks:
        if isinstance(block, Heading):
            lines += [f"## {block.text}"]
        elif isinstance(block, Plot):
            lines += [f"**{block.title}**", "", block.svg()]
        elif isinstance(block, Table):
            lines += ["| " + " | ".join(block.headings) + " |", "|" + "---|" * len(block.headings)]
            lines += [
                "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in block.rows
            ]
        else:
            lines.append(block)
        lines.append("")
    return "\n".join(lines)


def to_html(title: str, blocks: Iterable[Block]) -> str:
    """One file without anything beside it."""
    parts = [
        f'<!doctype html><meta charset="utf-8"><title>{escape(title)}</title>',
        "<style>body{font:15px/1.5 sans-serif;max-width:56em;margin:2em auto;padding:0 1em}",
        "td,th{padding:2px 12px 2px 0;text-align:left}svg{width:100%}</style>",
        f"<h1>{escape(title)}</h1>",
    ]
    for block in blocks:
        if isinstance(block, Heading):
            parts.append(f"<h2>{escape(block.text)}</h2>")
        elif isinstance(block, Plot):
            parts.append(f"<p><b>{escape(block.title)}</b></p>{block.svg()}")
        elif isinstance(block, Table):
            rows = ["".join(f"<th>{inline(cell)}</th>" for cell in block.headings)]
            rows += ["".join(f"<td>{inline(cell)}</td>" for cell in row) for row in block.rows]
            parts.append("<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>")
        else:
            parts.append(f"<p>{inline(block)}</p>")
    return "\n".join(parts) + "\n"


def inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
