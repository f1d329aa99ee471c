// Numbers and times as people read them. Pure functions; tests beside it.
import type { Cell } from "../types/api";

const BINARY = ["B", "KB", "MB", "GB", "TB", "PB"];

export function bytes(count: unknown) {
  if (!isNumber(count)) return "–";
  let value = Number(count);
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < BINARY.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${rounded(value, unit === 0 ? 0 : 3)} ${BINARY[unit]}`;
}

// Three digits that count: 1.23 s, 45.6 ms, 7 µs.
export function seconds(value: unknown) {
  if (!isNumber(value)) return "–";
  const size = Math.abs(value);
  if (size < 5e-10) return "0 s";
  if (size < 1e-6) return `${rounded(value * 1e9, 3)} ns`;
  if (size < 1e-3) return `${rounded(value * 1e6, 3)} µs`;
  if (size < 1) return `${rounded(value * 1e3, 3)} ms`;
  if (size < 120) return `${rounded(value, 3)} s`;
  return span(value);
}

// Two units at most: 3 min 20 s, 2 h 5 min, 4 d 1 h.
export function span(value: unknown) {
  if (!isNumber(value)) return "–";
  const total = Math.max(0, Math.floor(value));
  const parts: [number, string][] = [
    [Math.floor(total / 86400), "d"],
    [Math.floor(total / 3600) % 24, "h"],
    [Math.floor(total / 60) % 60, "min"],
    [total % 60, "s"],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  if (first < 0) return "0 s";
  return parts
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count} ${unit}`)
    .join(" ");
}

// Three digits at most, and none behind the second decimal: 97.5 %, 1.9 %, 0.04 %.
export function percent(value: unknown) {
  if (!isNumber(value)) return "–";
  return `${Math.abs(value) < 10 ? Number(value.toFixed(Math.abs(value) < 1 ? 2 : 1)) : rounded(value, 3)} %`;
}

export function integer(value: unknown) {
  return isNumber(value) || typeof value === "bigint"
    ? value.toLocaleString("en-US").replaceAll(",", " ")
    : "–";
}

// "1 row", "2 rows".
export function count(amount: number, noun: string): string {
  return `${integer(amount)} ${noun}${amount === 1 ? "" : "s"}`;
}

export function number(value: unknown) {
  if (typeof value === "bigint") return integer(value);
  if (!isNumber(value)) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return integer(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return value.toExponential(3);
  return rounded(value, 5);
}

// By the unit that a column is declared with.
export function withUnit(value: unknown, unit: string): string {
  if (unit === "bytes") return bytes(value);
  if (unit === "bytes/s") return isNumber(value) ? `${bytes(value)}/s` : "–";
  if (unit === "%") return percent(value);
  if (unit === "s") return seconds(value);
  if (unit === "ms") return isNumber(value) ? seconds(value / 1000) : "–";
  if (unit === "ns") return isNumber(value) ? seconds(value / 1e9) : "–";
  return unit ? `${number(value)} ${unit}` : number(value);
}

const TIME = /^(\d{4,}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d+)?([+-]\d\d(?::?\d\d)?|Z)?$/;

// "2026-11-16 04:30:13.5+00" as the server writes it, in milliseconds since the epoch; NaN if it is none.
export function parseTime(text: Cell) {
  const match = TIME.exec(String(text));
  if (!match) return NaN;
  const [, date, time, fraction, zone = "Z"] = match;
  const offset = zone === "Z" ? "Z" : zone.length === 3 ? `${zone}:00` : zone;
  return Date.parse(`${date}T${time}${offset}`) + Number(fraction ?? 0) * 1000;
}

export function clock(ms: number) {
  return Number.isFinite(ms) ? new Date(ms).toLocaleTimeString("en-GB") : "–";
}

// The last part of a path, below site-packages or the standard library more of it.
export function shortFile(file: string) {
  const packages =
    /^.*\/(?:site|dist)-packages\/(.*)$/.exec(file) ?? /^.*\/lib\/python3[^/]*\/(.*)$/.exec(file);
  return packages ? packages[1] : file.slice(file.lastIndexOf("/") + 1);
}

function isNumber(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

// Digits that count, without trailing zeros: 1.5, 12, 0.00123.
function rounded(value: number, digits: number): string {
  if (digits === 0 || Math.abs(value) >= 10 ** digits) return String(Math.round(value));
  return String(Number(value.toPrecision(digits)));
}
