// A flame graph on a canvas: click zooms, a search colours, arrows walk from box to box.
import { cssColour, h, keepDrawn, setText } from "../lib/dom";
import { compare, layout } from "../lib/flame_tree";
import type { FlameBox, FlameNode } from "../types/flame";

const ROW = 19;
const HUES: Record<string, number[]> = { python: [14, 26, 38, 50], native: [192, 205, 218, 231] };

function hash(text: string) {
  let value = 2166136261;
  for (let i = 0; i < text.length; i += 1) value = Math.imul(value ^ text.charCodeAt(i), 16777619);
  return value >>> 0;
}

export function percentOf(ticks: number, total: number): string {
  return `${((100 * ticks) / Math.max(total, 1)).toFixed(2)} %`;
}

// Cut to the room there is, with characters of one width; those of Asia take two.
export function fitting(text: string, columns: number): string {
  if (columns < 4) return "";
  let used = 0;
  let cut = 0;
  let at = 0;
  for (const one of text) {
    if (used + 1 <= columns - 1) cut = at;
    used += (one.codePointAt(0) ?? 0) >= 0x1000 ? 2 : 1;
    if (used > columns) return `${text.slice(0, cut)}…`;
    at += one.length;
  }
  return text;
}

export class FlameView {
  boxes: FlameBox[] = [];
  depth = 0;
  total = 0;
  focus: FlameBox | null = null; // what fills the width
  selected: FlameBox | null = null;
  pattern: RegExp | null = null;
  changes: Map<FlameNode, number> | null = null; // against another tree
  drawn: { box: FlameBox; x: number; y: number; w: number }[] = [];
  inverted = false;
  theme = { dark: false, group: "", idle: "" };

  canvas: HTMLCanvasElement;
  details: HTMLDivElement;
  node: HTMLDivElement;

  constructor(signal: AbortSignal) {
    this.canvas = h("canvas", { class: "flame", tabindex: "0", role: "img", "aria-label": "flame graph" });
    this.details = h("div", { class: "flame-details", "aria-live": "polite" });
    this.node = h("div", { class: "flame-view" }, this.canvas, this.details);
    this.canvas.addEventListener("click", (event) => this.choose(this.at(event), true));
    this.canvas.addEventListener("mousemove", (event) => this.choose(this.at(event), false));
    this.canvas.addEventListener("mouseleave", () => this.choose(null, false));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    keepDrawn(this.node, () => this.draw(), signal);
  }

  // `before` is another tree to compare with, or null. The zoom is kept when its path still exists.
  set(root: FlameNode, before: FlameNode | null = null): void {
    const path = this.focus ? pathOf(this.focus) : [];
    const { boxes, depth, total } = layout(root);
    Object.assign(this, { boxes, depth, total });
    this.changes = before && compare(root, before);
    this.focus = boxes.find((box) => box.depth === path.length - 1 && samePath(box, path)) ?? boxes[0];
    this.selected = null;
    this.canvas.dataset.boxes = String(boxes.length);
    this.draw();
  }

  search(word: string) {
    try {
      this.pattern = word ? new RegExp(word, "i") : null;
    } catch {
      return "not a regular expression";
    }
    let sum = 0;
    let covered = -1; // what matches inside of a match counts once
    for (const box of this.boxes) {
      if (!this.matches(box) || box.start < covered) continue;
      sum += box.ticks;
      covered = box.start + box.ticks;
    }
    this.draw();
    return this.pattern ? `${percentOf(sum, this.total)} matched` : "";
  }

  reset() {
    this.focus = this.boxes[0] ?? null;
    this.draw();
  }

  matches(box: FlameBox) {
    return this.pattern !== null && box.depth > 0 && this.pattern.test(box.node.label);
  }

  colour(box: FlameBox) {
    if (this.changes) return this.changeColour(this.changes.get(box.node) ?? 0);
    const { kind, label, file, idle, ticks } = box.node;
    if (kind === "group") return this.theme.group;
    if (idle === ticks) return this.theme.idle;
    const hues = HUES[kind] ?? HUES.native;
    const hue = hues[hash(file || label.slice(label.indexOf("("))) % hues.length];
    const shade = hash(label) % 3;
    if (this.theme.dark) return `hsl(${hue} ${kind === "python" ? 58 : 38}% ${25 + 4 * shade}%)`;
    return `hsl(${hue} ${kind === "python" ? 88 : 60}% ${64 + 5 * shade}%)`;
  }

  // Red for more than before, blue for less; 20 % of the whole and beyond are full colours.
  changeColour(change: number) {
    const strength = Math.min(Math.abs(change) / 0.2, 1);
    const lightness = this.theme.dark ? 22 + 16 * strength : 94 - 26 * strength;
    return `hsl(${change > 0 ? 8 : 214} ${Math.round(20 + 60 * strength)}% ${lightness}%)`;
  }

  draw() {
    const { focus } = this;
    const context = this.canvas.getContext("2d");
    if (!focus || !context || this.node.clientWidth === 0) return;
    const width = this.node.clientWidth;
    const height = (this.depth + 1) * ROW;
    const ratio = window.devicePixelRatio || 1;
    this.theme = {
      dark: document.documentElement.dataset.theme === "dark",
      group: cssColour("--flame-group"),
      idle: cssColour("--flame-idle"),
    };
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.height = `${height}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = '11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
    context.textBaseline = "middle";
    this.paint(context, focus, width, height);
    this.canvas.dataset.focus = focus.node.label;
  }

  paint(context: CanvasRenderingContext2D, focus: FlameBox, width: number, height: number): void {
    const character = context.measureText("0").width || 6.6;
    const end = focus.start + focus.ticks;
    const scale = width / Math.max(focus.ticks, 1);
    const text = cssColour("--text");
    const found = cssColour("--flame-hit");
    this.drawn = [];
    let hits = 0;
    for (const box of this.boxes) {
      const isCaller = box.depth < focus.depth && box.start <= focus.start && box.start + box.ticks >= end;
      const isInside = box.depth >= focus.depth && box.start >= focus.start && box.start + box.ticks <= end;
      if (!isCaller && !isInside) continue;
      const x = isCaller ? 0 : (box.start - focus.start) * scale;
      const w = isCaller ? width : box.ticks * scale;
      if (w < 0.4) continue;
      const y = this.inverted ? height - (box.depth + 1) * ROW : box.depth * ROW;
      const isHit = this.matches(box);
      hits += Number(isHit);
      context.globalAlpha = isCaller ? 0.5 : 1;
      context.fillStyle = isHit ? found : this.colour(box);
      context.fillRect(x, y, Math.max(w - 0.8, 0.4), ROW - 1);
      if (box === this.selected) {
        context.strokeStyle = text;
        context.strokeRect(x + 0.5, y + 0.5, Math.max(w - 2, 1), ROW - 2);
      }
      const label = fitting(box.node.label, Math.floor((w - 8) / character));
      if (label) {
        context.fillStyle = text;
        context.fillText(label, x + 4, y + ROW / 2);
      }
      this.drawn.push({ box, x, y, w });
    }
    this.canvas.dataset.hits = String(hits);
  }

  at(event: MouseEvent) {
    const area = this.canvas.getBoundingClientRect();
    const x = event.clientX - area.left;
    const y = event.clientY - area.top;
    return (
      this.drawn.find((one) => x >= one.x && x < one.x + one.w && y >= one.y && y < one.y + ROW)?.box ?? null
    );
  }

  choose(box: FlameBox | null, zoom: boolean): void {
    if (!zoom && box === this.selected) return;
    this.selected = box;
    if (zoom && box) this.focus = box;
    setText(this.details, box ? this.describe(box) : "");
    this.draw();
  }

  describe({ node, ticks }: FlameBox) {
    const { label, file, self } = node;
    const change = this.changes
      ? `, ${(100 * (this.changes.get(node) ?? 0)).toFixed(2)} points against the baseline`
      : "";
    return `${label}: ${ticks} samples, ${percentOf(ticks, this.total)}, ${self} of its own${change}  ${file}`;
  }

  key(event: KeyboardEvent) {
    const from = this.selected ?? this.focus;
    if (!from) return;
    const siblings = this.boxes.filter((box) => box.parent === from.parent);
    const at = siblings.indexOf(from);
    const below = this.boxes.find((box) => box.parent === from);
    const down = this.inverted ? "ArrowUp" : "ArrowDown";
    const up = this.inverted ? "ArrowDown" : "ArrowUp";
    const next: Record<string, FlameBox | null | undefined> = {
      [down]: below,
      [up]: from.parent,
      ArrowRight: siblings[at + 1],
      ArrowLeft: siblings[at - 1],
    };
    if (event.key in next) this.choose(next[event.key] ?? from, false);
    else if (event.key === "Enter") this.choose(from, true);
    else if (event.key === "Escape") this.reset();
    else return;
    event.preventDefault();
  }
}

function pathOf(box: FlameBox | null) {
  const path = [];
  for (let at = box; at; at = at.parent) path.unshift(at.node.label);
  return path;
}

function samePath(box: FlameBox | null, path: string[]): boolean {
  let at = box;
  for (let i = path.length - 1; i >= 0; i -= 1, at = at.parent) {
    if (!at || at.node.label !== path[i]) return false;
  }
  return at === null;
}
