// How a timeline is painted: rows of events by binary search, what is narrower than a pixel once.
import { cssColour, seriesVariable } from "../lib/dom";
import { withUnit } from "../lib/format";
import { matches } from "../lib/timeline";
import { fitting } from "../lib/text_width";
import type { Span, TimelineEvent, Track } from "../types/training";

export const ROW = 18;
export const AXIS = 24;
const COUNTER_HEIGHT = 2 * ROW;
const STEPS = [1, 2, 5];
const SECOND = 1000;
const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600].map((s) => s * SECOND);
const LABEL = 60; // pixels
const CHARACTER = 6.7;
const COLOURS: Record<string, number> = {
  Steps: 0,
  data_wait: 1,
  forward: 2,
  backward: 3,
  optimizer: 5,
  Modules: 7,
  Collectives: 4,
  "Garbage collection": 6,
  Exceptions: 4,
};

export interface Placed {
  track: Track;
  rows: TimelineEvent[][]; // of the track, each without overlaps
  top: number;
}

export interface Look {
  window: Span;
  left: number; // where time begins, beside the names
  width: number;
  word: string; // searched for
  found: TimelineEvent | null; // of these, the one that is looked at
}

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

// The first of a row that ends after `time`. In a row nothing overlaps, so ends are in order, too.
export function firstAfter(row: TimelineEvent[], time: number): number {
  let [low, high] = [0, row.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row[middle].start + row[middle].ms < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function rowsOf(track: Track): TimelineEvent[][] {
  const rows: TimelineEvent[][] = Array.from({ length: track.rows }, () => []);
  for (const event of track.events) rows[event.row].push(event);
  return rows;
}

export function heightOf({ kind, rows }: Track, most: number): number {
  return kind === "counter" ? COUNTER_HEIGHT : Math.min(rows, most) * ROW;
}

export function clockText(at: number, step: number): string {
  const time = new Date(at);
  const digits = step < 1 ? 3 : step < 1000 ? 3 : 0;
  return time.toLocaleTimeString("en-GB") + (digits ? `.${String(time.getMilliseconds()).padStart(3, "0")}` : "");
}

export function drawAxis(context: CanvasRenderingContext2D, { window, left, width }: Look, height: number): void {
  const [from, to] = window;
  const { step, marks } = ticks(from, to, (width - left) / 120);
  context.font = "11px system-ui, sans-serif";
  const [line, text] = [cssColour("--grid"), cssColour("--quiet")];
  for (const at of marks) {
    const x = left + ((at - from) / (to - from)) * (width - left);
    context.fillStyle = line;
    context.fillRect(x, AXIS - 4, 1, height);
    context.fillStyle = text;
    if (x + LABEL < width) context.fillText(clockText(at, step), x + 3, AXIS / 2);
  }
}

function colourOf(kind: string, name: string): string {
  const word = name.replace(/\d+/g, ""); // "step 12" and "step 13" are of one kind
  const i = COLOURS[kind] ?? [...word].reduce((sum, one) => sum + one.charCodeAt(0), 0);
  return cssColour(seriesVariable(i));
}

export function drawTrack(context: CanvasRenderingContext2D, { track, rows, top }: Placed, look: Look, most: number) {
  if (track.kind === "counter") return drawCounter(context, track, top, look);
  const { window, left, width, word } = look;
  const [from, to] = window;
  const scale = (width - left) / (to - from);
  const ink = cssColour("--on-series");
  const hit = cssColour("--flame-hit");
  const colours: Map<string, string> = new Map();
  context.font = "11px ui-monospace, DejaVu Sans Mono, Menlo, monospace";
  rows.slice(0, most).forEach((row, r) => {
    const y = top + r * ROW;
    let painted = -1; // up to there
    for (let i = firstAfter(row, from); i < row.length && row[i].start <= to; i += 1) {
      const event = row[i];
      const x = left + Math.max((event.start - from) * scale, 0);
      const end = left + Math.min((event.start + event.ms - from) * scale, width - left);
      const w = Math.max(end - x, 1.5);
      const isHit = word !== "" && matches(event, word);
      if (x + w < painted + 0.5 && !isHit) continue; // within what is there already
      const key = event.kind === "Spans" ? event.name : event.kind;
      let colour = colours.get(key);
      if (!colour) colours.set(key, (colour = colourOf(event.kind, event.name)));
      context.globalAlpha = word !== "" && !isHit ? 0.25 : 1;
      context.fillStyle = isHit ? hit : colour;
      context.fillRect(x, y, Math.max(w - 0.5, 1), ROW - 2);
      painted = x + w;
      if (event === look.found) {
        context.strokeStyle = cssColour("--text");
        context.strokeRect(x + 0.5, y + 0.5, Math.max(w - 1.5, 1), ROW - 3);
      }
      const label = w > 4 * CHARACTER ? fitting(event.name, Math.floor((w - 6) / CHARACTER)) : "";
      if (label) {
        context.fillStyle = ink;
        context.fillText(label, x + 3, y + ROW / 2 - 1);
      }
    }
  });
  context.globalAlpha = 1;
}

// A line over its ground, from 0 to its most; the last value before the window goes into it.
function drawCounter(context: CanvasRenderingContext2D, { points, unit }: Track, top: number, look: Look): void {
  const [from, to] = look.window;
  const { left, width } = look;
  const seen = points.filter(([at], i) => at >= from - 1 && (points[i - 1]?.[0] ?? at) <= to);
  const most = Math.max(...seen.map(([, value]) => value), 0) || 1;
  const bottom = top + COUNTER_HEIGHT - 3;
  const x = (at: number) => left + Math.max(0, Math.min(1, (at - from) / (to - from))) * (width - left);
  const y = (value: number) => bottom - (value / most) * (COUNTER_HEIGHT - 8);
  if (seen.length === 0) return;
  context.beginPath();
  context.moveTo(x(seen[0][0]), bottom);
  for (const [at, value] of seen) context.lineTo(x(at), y(value));
  context.lineTo(x(seen[seen.length - 1][0]), bottom);
  context.fillStyle = `${cssColour("--series-5")}55`;
  context.fill();
  context.fillStyle = cssColour("--quiet");
  context.font = "10px system-ui, sans-serif";
  context.fillText(withUnit(most, unit), left + 4, top + 6);
}
