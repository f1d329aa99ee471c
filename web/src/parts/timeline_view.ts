// A timeline on a canvas: ranks, their tracks, and what happened. W S zoom, A D move, Shift and the mouse select.
import { cssColour, h, keepDrawn } from "../lib/dom";
import { seconds, withUnit } from "../lib/format";
import { matches } from "../lib/timeline";
import { fitting } from "../lib/text_width";
import { Tip } from "./tip";
import { AXIS, clockText, drawAxis, drawTrack, firstAfter, heightOf, ROW, rowsOf } from "./timeline_canvas";
import type { Look, Placed } from "./timeline_canvas";
import type { Hear } from "../types/page";
import type { Group, Span, TimelineEvent } from "../types/training";

const HEAD = 22; // of a group
const GAP = 5;
const MOST_ROWS = 12;
const MOST_OPEN = 6; // groups, at first
const NARROW = 640;

interface Head {
  group: Group;
  top: number;
}

export class TimelineView {
  groups: Group[] = [];
  private all: Span | null = null; // of time; null before there is data
  private window: Span | null = null; // when somebody has zoomed; else all of it
  private selection: Span | null = null;
  private dragged: { x: number; window: Span; from: number | null } | null = null;
  private placed: Placed[] = [];
  private heads: Head[] = [];
  private height = 0;
  private readonly folded = new Map<string, boolean>(); // by name of the group, once somebody has said so
  private word = "";
  private found: { list: TimelineEvent[]; at: number } = { list: [], at: -1 };

  readonly canvas = h("canvas", { class: "timeline", tabindex: "0", role: "img", "aria-label": "timeline" });
  private readonly tip = new Tip();
  readonly node = h("div", { class: "canvas-view" }, this.canvas, this.tip.node);

  // `selected` hears of a range that was drawn, or null.
  constructor(
    signal: AbortSignal,
    private readonly selected: Hear<Span | null>,
  ) {
    keepDrawn(this.node, () => this.draw(), signal);
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => this.press(event));
    this.canvas.addEventListener("pointerup", (event) => this.release(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("pointerleave", () => this.tip.hide());
    this.canvas.addEventListener("dblclick", () => this.setWindow(null));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  set(groups: Group[], from: number, to: number): void {
    this.all = [from, to];
    this.groups = groups;
    this.arrange();
    const count = groups.reduce((sum, { tracks }) => sum + tracks.reduce((all, { events }) => all + events.length, 0), 0);
    this.canvas.dataset.events = String(count);
    this.canvas.dataset.tracks = groups
      .flatMap(({ name, tracks }) => tracks.map((track) => `${name}/${track.name}:${track.rows}`))
      .join(" ");
    if (this.word) this.find(this.word);
    this.draw();
  }

  private isFolded({ name }: Group, i: number) {
    return this.folded.get(name) ?? i >= MOST_OPEN;
  }

  private arrange() {
    let top = AXIS;
    this.placed = [];
    this.heads = this.groups.map((group, i) => {
      const head = { group, top };
      top += HEAD;
      if (this.isFolded(group, i)) return head;
      for (const track of group.tracks) {
        this.placed.push({ track, rows: rowsOf(track), top });
        top += heightOf(track, MOST_ROWS) + GAP;
      }
      return head;
    });
    this.height = top;
  }

  shown(): Span {
    return this.window ?? this.all ?? [0, 0];
  }

  setWindow(window: Span | null) {
    this.window = window;
    this.draw();
  }

  select(span: Span | null) {
    this.selection = span;
    this.selected(span);
    this.draw();
  }

  // How many fit; the first of them after what is shown is looked at when one goes on.
  find(word: string): string {
    this.word = word.trim().toLowerCase();
    const all = this.word === "" ? [] : this.groups.flatMap(({ tracks }) => tracks.flatMap(({ events }) => events));
    const list = all.filter((event) => matches(event, this.word)).sort((a, b) => a.start - b.start);
    this.found = { list, at: -1 };
    this.canvas.dataset.found = String(list.length);
    this.draw();
    return this.word === "" ? "" : `${list.length} found`;
  }

  next(step: number) {
    const { list, at } = this.found;
    if (list.length === 0) return;
    const i = (at + step + list.length) % list.length;
    this.found.at = i;
    const { start, ms } = list[i];
    const [from, to] = this.shown();
    const half = Math.max(to - from, ms * 2) / 2;
    this.setWindow([start + ms / 2 - half, start + ms / 2 + half]);
  }

  zoom(factor: number, share = 0.5) {
    const [from, to] = this.shown();
    const middle = from + (to - from) * share;
    const width = Math.max((to - from) * factor, 0.001);
    this.setWindow([middle - width * share, middle + width * (1 - share)]);
  }

  pan(share: number) {
    const [from, to] = this.shown();
    const by = (to - from) * share;
    this.setWindow([from + by, to + by]);
  }

  private left() {
    return this.node.clientWidth < NARROW ? 84 : 168;
  }

  private timeAt(x: number) {
    const [from, to] = this.shown();
    return from + ((x - this.left()) / (this.canvas.clientWidth - this.left())) * (to - from);
  }

  private wheel(event: WheelEvent) {
    if (event.ctrlKey) return;
    const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!sideways && !event.altKey && !this.canvas.matches(":focus")) return; // else the page could not be scrolled
    event.preventDefault();
    if (sideways) return this.pan((event.deltaX || event.deltaY) / 1000);
    const share = (event.offsetX - this.left()) / (this.canvas.clientWidth - this.left());
    this.zoom(event.deltaY > 0 ? 1.25 : 0.8, share);
  }

  private press(event: PointerEvent) {
    this.canvas.focus({ preventScroll: true });
    const selects = event.shiftKey || event.offsetY < AXIS;
    this.dragged = {
      x: event.clientX,
      window: this.shown(),
      from: selects ? this.timeAt(event.offsetX) : null,
    };
    this.canvas.setPointerCapture(event.pointerId);
  }

  private release(event: PointerEvent) {
    const dragged = this.dragged;
    this.dragged = null;
    if (!dragged || Math.abs(dragged.x - event.clientX) > 3) return;
    const i = this.heads.findIndex(({ top }) => event.offsetY >= top && event.offsetY < top + HEAD);
    if (i >= 0) {
      const { group } = this.heads[i];
      this.folded.set(group.name, !this.isFolded(group, i));
      this.arrange();
    }
    if (this.selection) this.select(null);
    this.draw();
  }

  private move(event: PointerEvent) {
    const { dragged } = this;
    if (dragged?.from !== null && dragged?.from !== undefined) {
      const to = this.timeAt(event.offsetX);
      if (Math.abs(dragged.x - event.clientX) > 3)
        this.select([Math.min(dragged.from, to), Math.max(dragged.from, to)]);
      return;
    }
    if (dragged) {
      const [from, to] = dragged.window;
      const by = ((dragged.x - event.clientX) / (this.canvas.clientWidth - this.left())) * (to - from);
      if (Math.abs(dragged.x - event.clientX) > 3) this.setWindow([from + by, to + by]);
      return;
    }
    this.tell(event.offsetX, event.offsetY);
  }

  private tell(x: number, y: number) {
    const under = this.placed.find(({ track, top }) => y >= top && y < top + heightOf(track, MOST_ROWS));
    if (!under || x < this.left()) return this.tip.hide();
    const { track, rows, top } = under;
    const time = this.timeAt(x);
    if (track.kind === "counter") {
      const [at, value] = track.points.findLast(([when]) => when <= time) ?? [0, null];
      if (value === null) return this.tip.hide();
      return this.tip.show(this.node, x, y, h("strong", {}, track.name), withUnit(value, track.unit), clockText(at, 1));
    }
    const [from, to] = this.shown();
    const pixel = (to - from) / this.canvas.clientWidth;
    const row = rows[Math.floor((y - top) / ROW)] ?? [];
    const event = row[firstAfter(row, time - 2 * pixel)];
    if (!event || event.start > time + 2 * pixel) return this.tip.hide();
    const { name, start, ms, detail } = event;
    const length = ms > 0 ? `, ${seconds(ms / 1000)}` : "";
    this.tip.show(this.node, x, y, h("strong", {}, name), `${clockText(start, 1)}${length}`, detail);
  }

  private key(event: KeyboardEvent) {
    const actions: Record<string, () => void> = {
      w: () => this.zoom(0.7),
      s: () => this.zoom(1.4),
      a: () => this.pan(-0.15),
      d: () => this.pan(0.15),
      "+": () => this.zoom(0.7),
      "=": () => this.zoom(0.7),
      "-": () => this.zoom(1.4),
      ArrowLeft: () => this.pan(-0.15),
      ArrowRight: () => this.pan(0.15),
      n: () => this.next(1),
      N: () => this.next(-1),
      m: () => this.select(this.shown()),
      Escape: () => (this.selection ? this.select(null) : this.setWindow(null)),
    };
    if (!(event.key in actions) || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation(); // the page has keys of its own
    actions[event.key]();
  }

  draw() {
    const width = this.node.clientWidth;
    const context = this.canvas.getContext("2d");
    if (!this.all || !context || width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = this.height * ratio;
    this.canvas.style.height = `${this.height}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.textBaseline = "middle";
    const { list, at } = this.found;
    const look: Look = {
      window: this.shown(),
      left: this.left(),
      width,
      word: this.word,
      found: list[at] ?? null,
    };
    this.canvas.dataset.window = look.window.map((one) => one.toFixed(3)).join(" ");
    drawAxis(context, look, this.height);
    for (const placed of this.placed) drawTrack(context, placed, look, MOST_ROWS);
    this.drawNames(context, look);
    this.drawSelection(context, look);
  }

  private drawNames(context: CanvasRenderingContext2D, { left, width }: Look) {
    const [ground, text, quiet] = ["--raised", "--text", "--quiet"].map(cssColour);
    this.heads.forEach(({ group, top }, i) => {
      context.fillStyle = ground;
      context.fillRect(0, top, width, HEAD - 3);
      context.fillStyle = text;
      context.font = "600 12px system-ui, sans-serif";
      context.fillText(`${this.isFolded(group, i) ? "▸" : "▾"} ${group.name}`, 6, top + HEAD / 2 - 1);
    });
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = quiet;
    for (const { track, top } of this.placed)
      context.fillText(fitting(track.name, Math.floor((left - 14) / 6)), 10, top + ROW / 2);
  }

  private drawSelection(context: CanvasRenderingContext2D, { window, left, width }: Look) {
    if (!this.selection) return;
    const [from, to] = window;
    const x = (at: number) => left + Math.max(0, Math.min(1, (at - from) / (to - from))) * (width - left);
    const [first, last] = this.selection.map(x);
    context.fillStyle = cssColour("--accent");
    context.globalAlpha = 0.14;
    context.fillRect(first, 0, last - first, this.height);
    context.globalAlpha = 1;
    context.fillText(seconds((this.selection[1] - this.selection[0]) / 1000), first + 4, AXIS + 6);
  }
}
