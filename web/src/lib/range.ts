// Which time is looked at: the last minutes, or from one moment to another, which a link keeps. Pure.
import type { Option, Range } from "../types/page";

export const PRESETS: Option[] = [
  ["10s", "Last 10 seconds"],
  ["1m", "Last minute"],
  ["5m", "Last 5 minutes"],
  ["15m", "Last 15 minutes"],
  ["60m", "Last hour"],
  ["180m", "Last 3 hours"],
  ["1440m", "Last day"],
];
const MOST_SECONDS = 30 * 86400;

// ?minutes=60, ?seconds=10, ?from=1700000000000&to=1700000060000
export function rangeOf(params: URLSearchParams, usualSeconds: number): Range {
  const [from, to] = [Number(params.get("from")), Number(params.get("to"))];
  if (from > 0 && to > from) return { from, to };
  const seconds = Number(params.get("seconds")) || 60 * Number(params.get("minutes"));
  return { seconds: seconds > 0 && seconds <= MOST_SECONDS ? seconds : usualSeconds };
}

// What the address says of it: all four, so that the others go.
export function rangeParams(range: Range): Record<string, string | null> {
  const none = { from: null, to: null, seconds: null, minutes: null };
  if ("from" in range)
    return { ...none, from: String(Math.round(range.from)), to: String(Math.round(range.to)) };
  const { seconds } = range;
  return seconds % 60 === 0 ? { ...none, minutes: String(seconds / 60) } : { ...none, seconds: String(seconds) };
}

export function fromPreset(preset: string): Range {
  return { seconds: parseInt(preset, 10) * (preset.endsWith("m") ? 60 : 1) };
}

export function presetOf(range: Range): string | null {
  if ("from" in range) return null;
  return PRESETS.find(([name]) => secondsOf(fromPreset(name)) === range.seconds)?.[0] ?? null;
}

export function secondsOf(range: Range): number {
  return "from" in range ? (range.to - range.from) / 1000 : range.seconds;
}

// With its end: now, or where it is frozen. In ms.
export function bounds(range: Range, now = Date.now()): { from: number; to: number } {
  return "from" in range ? range : { from: now - 1000 * range.seconds, to: now };
}

// The same length of time before it.
export function before(range: Range, now = Date.now()): { from: number; to: number } {
  const { from, to } = bounds(range, now);
  return { from: 2 * from - to, to: from };
}

const moment = (ms: number) => `TIMESTAMPTZ '${new Date(ms).toISOString().replace("T", " ").replace("Z", "+00")}'`;

// The condition of a query: rows of that time, and of one job if it is one that is looked at.
export function within(range: Range, job: string | null = null): string {
  const who = job === null ? "" : ` AND job = '${job.replaceAll("'", "''")}'`;
  if ("from" in range) return `timestamp >= ${moment(range.from)} AND timestamp <= ${moment(range.to)}${who}`;
  return `timestamp > now() - interval '${Number(range.seconds)} seconds'${who}`;
}

// "19 Nov 03:30:00 – 03:35:00"
export function rangeText(range: Range): string {
  if (!("from" in range)) return PRESETS.find(([name]) => name === presetOf(range))?.[1] ?? `Last ${range.seconds} s`;
  const [from, to] = [new Date(range.from), new Date(range.to)];
  const day = (date: Date) => date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  const end = day(from) === day(to) ? "" : `${day(to)} `;
  return `${day(from)} ${from.toLocaleTimeString("en-GB")} – ${end}${to.toLocaleTimeString("en-GB")}`;
}
