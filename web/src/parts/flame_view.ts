// A flame graph on a canvas: click zooms, a search colours, arrows walk from box to box.
import { h, keepDrawn } from "../lib/dom";
import { classTitle } from "../lib/flame_palette";
import { compare, layout } from "../lib/flame_tree";
import { rankSet } from "../lib/flame_views";
import { paintFlames, ROW } from "./flame_canvas";
import { Tip } from "./tip";
import type { Painted } from "./flame_canvas";
import type { FlameBox, FlameNode, FlameOrder } from "../types/flame";

const MOST_PIXELS = 16_000; // browsers draw no canvas that is higher

export function percentOf(ticks: number, total: number): string {
  return `${((100 * ticks) / Math.max(total, 1)).toFixed(2)} %`;
}

export class FlameView {
  boxes: FlameBox[] = [];
  depth = 0;
  total = 0;
  focus: FlameBox | null = null; // what fills the width
  selected: FlameBox | null = null;
  pattern: RegExp | null = null;
  changes: Map<FlameNode, number> | null = null; // against another tree
  inverted = false;
  unit = "samples"; // of ticks
  private drawn: Painted[] = [];
  private readonly children: Map<FlameBox | null, FlameBox[]> = new Map();

  readonly canvas = h("canvas", { class: "flame", tabindex: "0", role: "img", "aria-label": "flame graph" });
  private readonly tip = new Tip();
  readonly node = h("div", { class: "canvas-view" }, this.canvas, this.tip.node);

  // `chosen` hears of a function that somebody wants to see alone.
  constructor(
    signal: AbortSignal,
    private readonly chosen: (label: string) => void = () => {},
  ) {
    this.canvas.addEventListener("click", (event) => {
      const hit = this.at(event);
      if (hit && (event.shiftKey || event.altKey)) this.chosen(hit.box.node.label);
      else if (hit) this.zoom(hit.box);
    });
    this.canvas.addEventListener("mousemove", (event) => this.point(event));
    this.canvas.addEventListener("mouseleave", () => this.choose(null));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    keepDrawn(this.node, () => this.draw(), signal);
  }

  // `before` is another tree to compare with, or null. The zoom is kept when its path still exists.
  set(root: FlameNode, before: FlameNode | null = null, order: FlameOrder = "name"): void {
    const path = this.focus ? pathOf(this.focus) : [];
    const { boxes, depth, total } = layout(root, order);
    Object.assign(this, { boxes, depth, total });
    this.children.clear();
    for (const box of boxes) {
      const list = this.children.get(box.parent);
      if (list) list.push(box);
      else this.children.set(box.parent, [box]);
    }
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

  zoom(box: FlameBox) {
    this.focus = this.selected = box;
    this.draw();
  }

  matches(box: FlameBox) {
    return this.pattern !== null && box.depth > 0 && this.pattern.test(box.node.label);
  }

  draw() {
    const { focus } = this;
    const context = this.canvas.getContext("2d");
    const width = this.node.clientWidth;
    if (!focus || !context || width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    const height = Math.min((this.depth + 1) * ROW, Math.floor(MOST_PIXELS / ratio));
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.height = `${height}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const { boxes, selected, inverted, changes } = this;
    const dark = document.documentElement.dataset.theme === "dark";
    const isHit = (box: FlameBox) => this.matches(box);
    this.drawn = paintFlames(context, { boxes, focus, selected, width, height, inverted, dark, changes, isHit });
    this.canvas.dataset.hits = String(this.pattern ? this.drawn.filter(({ box }) => this.matches(box)).length : 0);
    this.canvas.dataset.focus = focus.node.label;
    this.canvas.setAttribute("aria-label", `flame graph of ${focus.node.label}`);
  }

  // Where a box is, for those who want to point at it.
  placeOf(prefix: string): Painted | undefined {
    return this.drawn.find(({ box }) => box.node.label.startsWith(prefix));
  }

  private at(event: MouseEvent): Painted | null {
    const area = this.canvas.getBoundingClientRect();
    const x = event.clientX - area.left;
    const y = event.clientY - area.top;
    return this.drawn.find((one) => x >= one.x && x < one.x + one.w && y >= one.y && y < one.y + ROW) ?? null;
  }

  private point(event: MouseEvent) {
    const hit = this.at(event);
    this.choose(hit?.box ?? null);
    if (!hit) return;
    const area = this.canvas.getBoundingClientRect();
    this.tell(hit.box, event.clientX - area.left, event.clientY - area.top);
  }

  private choose(box: FlameBox | null): void {
    if (!box) this.tip.hide();
    if (box === this.selected) return;
    this.selected = box;
    this.draw();
  }

  private tell({ node, ticks }: FlameBox, x: number, y: number) {
    const { label, file, self, kind } = node;
    const ranks = rankSet(node.ranks, this.boxes[0]?.node.ranks ?? new Set());
    const change = this.changes
      ? `${(100 * (this.changes.get(node) ?? 0)).toFixed(2)} points against the baseline`
      : "";
    const numbers = `${ticks} ${this.unit}, ${percentOf(ticks, this.total)}, ${self} of its own`;
    const whose = kind === "group" ? "" : classTitle(kind);
    this.tip.show(this.node, x, y, h("strong", {}, label), ranks, numbers, change, [whose, file].filter(Boolean).join(" · "));
  }

  private key(event: KeyboardEvent) {
    const from = this.selected ?? this.focus;
    if (!from) return;
    const siblings = this.children.get(from.parent) ?? [];
    const at = siblings.indexOf(from);
    const below = this.children.get(from)?.[0];
    const down = this.inverted ? "ArrowUp" : "ArrowDown";
    const up = this.inverted ? "ArrowDown" : "ArrowUp";
    const next: Record<string, FlameBox | null | undefined> = {
      [down]: below,
      [up]: from.parent,
      ArrowRight: siblings[at + 1],
      ArrowLeft: siblings[at - 1],
    };
    if (event.key in next) {
      const box = next[event.key] ?? from;
      this.choose(box);
      const place = this.drawn.find((one) => one.box === box);
      if (place) this.tell(box, Math.max(place.x, 0), place.y + ROW / 2);
    } else if (event.key === "Enter") this.zoom(from);
    else if (event.key === "s") this.chosen(from.node.label);
    else if (event.key === "Escape") this.reset();
    else return;
    event.preventDefault();
    event.stopPropagation();
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
