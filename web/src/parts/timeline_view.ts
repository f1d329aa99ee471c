// Events on a canvas: wheel or +/− zooms, dragging or arrows move, the event under the mouse is told.
import { cssColour, h, keepDrawn, seriesVariable, setText } from "../lib/dom";
import { arrange, MOST } from "../lib/timeline";
import { seconds } from "../lib/format";
import { fitting } from "./flame_view";
import type { Lane, Span, TimelineEvent } from "../types/training";

const ROW = 18;
const LANE_HEAD = 20;
const AXIS = 22;
const MOST_ROWS = 12;
const STEPS = [1, 2, 5];
const SECOND = 1000;
const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600].map((s) => s * SECOND);
const LABEL = 60; // pixels

// About one mark in 120 pixels, at round times.
export function ticks(from: number, to: number, count: number): { step: number; marks: number[] } {
  const rough = (to - from) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const below = (STEPS.find((one) => one * power >= rough) ?? 10) * power;
  const step = below < SECOND ? below : (TIMES.find((one) => one >= rough) ?? below);
  const marks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) marks.push(at);
  return { step, marks };
}

export class TimelineView {
  lanes: Lane[] = [];
  all: Span | null = null; // of time; null before there is data
  window: Span | null = null; // when somebody has zoomed; else all of it
  dragged: { x: number; window: Span } | null = null;
  drawn: { event: TimelineEvent; x: number; y: number; w: number }[] = [];

  canvas: HTMLCanvasElement;
  details: HTMLDivElement;
  node: HTMLDivElement;

  constructor(signal: AbortSignal) {
    this.canvas = h("canvas", { class: "timeline", tabindex: "0", role: "img", "aria-label": "timeline" });
    this.details = h("div", { class: "flame-details", "aria-live": "polite" });
    this.node = h("div", { class: "flame-view" }, this.canvas, this.details);
    keepDrawn(this.node, () => this.draw(), signal);
    this.listen();
  }

  listen() {
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => {
      this.dragged = { x: event.clientX, window: this.shown() };
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointerup", () => (this.dragged = null));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("dblclick", () => this.setWindow(null));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  set(events: TimelineEvent[], from: number, to: number): void {
    this.all = [from, to];
    this.lanes = arrange(events);
    this.canvas.dataset.events = String(events.length);
    this.draw();
  }

  shown(): Span {
    return this.window ?? this.all ?? [0, 0];
  }

  setWindow(window: Span | null) {
    this.window = window;
    this.draw();
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

  wheel(event: WheelEvent) {
    if (event.ctrlKey || event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      if (event.ctrlKey) return;
      event.preventDefault();
      this.pan((event.deltaX || event.deltaY) / 1000);
      return;
    }
    event.preventDefault();
    this.zoom(event.deltaY > 0 ? 1.25 : 0.8, event.offsetX / this.canvas.clientWidth);
  }

  move(event: PointerEvent) {
    if (this.dragged) {
      const [from, to] = this.dragged.window;
      const by = ((this.dragged.x - event.clientX) / this.canvas.clientWidth) * (to - from);
      if (Math.abs(this.dragged.x - event.clientX) > 2) this.setWindow([from + by, to + by]);
      return;
    }
    const hit = this.drawn.findLast(
      ({ x, y, w }) =>
        event.offsetX >= x - 1 && event.offsetX <= x + w + 1 && event.offsetY >= y && event.offsetY < y + ROW,
    );
    setText(this.details, hit ? describe(hit.event) : "");
  }

  key(event: KeyboardEvent) {
    const actions: Record<string, () => void> = {
      "+": () => this.zoom(0.7),
      "=": () => this.zoom(0.7),
      "-": () => this.zoom(1.4),
      ArrowLeft: () => this.pan(-0.15),
      ArrowRight: () => this.pan(0.15),
      Escape: () => this.setWindow(null),
    };
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  }

  draw() {
    const width = this.node.clientWidth;
    const context = this.canvas.getContext("2d");
    if (!this.all || !context || width === 0) return;
    const height =
      AXIS + this.lanes.reduce((sum, { rows }) => sum + LANE_HEAD + Math.min(rows, MOST_ROWS) * ROW, 0);
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.height = `${height}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.textBaseline = "middle";
    this.drawn = [];
    this.drawAxis(context, width, height);
    let top = AXIS;
    this.lanes.forEach((lane, i) => (top = this.drawLane(context, lane, i, top, width)));
  }

  drawAxis(context: CanvasRenderingContext2D, width: number, height: number): void {
    const [from, to] = this.shown();
    const { step, marks } = ticks(from, to, width / 120);
    context.font = "11px system-ui, sans-serif";
    for (const at of marks) {
      const x = ((at - from) / (to - from)) * width;
      context.fillStyle = cssColour("--grid");
      context.fillRect(x, AXIS - 4, 1, height);
      context.fillStyle = cssColour("--quiet");
      const time = new Date(at);
      const fraction = step < 1000 ? `.${String(time.getMilliseconds()).padStart(3, "0")}` : "";
      if (x + LABEL < width) context.fillText(time.toLocaleTimeString("en-GB") + fraction, x + 3, AXIS / 2);
    }
  }

  drawLane(
    context: CanvasRenderingContext2D,
    { name, rows, events }: Lane,
    i: number,
    top: number,
    width: number,
  ): number {
    const [from, to] = this.shown();
    const scale = width / (to - from);
    const ground = cssColour("--surface");
    context.font = "600 11px system-ui, sans-serif";
    context.fillStyle = cssColour("--quiet");
    const count = events.length === MOST ? `the latest ${MOST}` : events.length;
    context.fillText(`${name} (${count})`, 4, top + LANE_HEAD / 2);
    context.font = "11px ui-monospace, DejaVu Sans Mono, Menlo, monospace";
    const colour = cssColour(seriesVariable(i));
    for (const { event, row } of events) {
      if (row >= MOST_ROWS) continue;
      const x = (event.start - from) * scale;
      const w = Math.max(event.ms * scale, 1.5);
      if (x + w < 0 || x > width) continue;
      const y = top + LANE_HEAD + row * ROW;
      context.globalAlpha = row % 2 ? 0.75 : 1;
      context.fillStyle = colour;
      context.fillRect(x, y, Math.max(w - 0.5, 1), ROW - 2);
      context.globalAlpha = 1;
      const left = Math.max(x, 0);
      const label = fitting(event.name, Math.floor((x + w - left - 6) / 6.7));
      if (label) {
        context.fillStyle = ground;
        context.fillText(label, left + 3, y + ROW / 2 - 1);
      }
      this.drawn.push({ event, x, y, w });
    }
    return top + LANE_HEAD + Math.min(rows, MOST_ROWS) * ROW;
  }
}

function describe({ lane, name, start, ms, detail }: TimelineEvent) {
  const when = new Date(start);
  const time = `${when.toLocaleTimeString("en-GB")}.${String(when.getMilliseconds()).padStart(3, "0")}`;
  return `${lane}: ${name}  ${time}${ms > 0 ? `, ${seconds(ms / 1000)}` : ""}  ${detail}`;
}
