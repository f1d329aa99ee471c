// What charts do with numbers before they are drawn. Pure.
import { withUnit } from "./format";
import type { Line } from "../types/tables";

const TIME_UNITS: [number, string][] = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "µs"],
  [1e-9, "ns"],
];
const BINARY_UNITS = ["B", "KB", "MB", "GB", "TB", "PB"];

// As many digits as tell neighbours apart, and not one more.
function digitsOf(values: number[], scale: number): number {
  const gaps = values.slice(1).map((value, i) => Math.abs(value - values[i]) / scale);
  const least = Math.min(...gaps.filter((gap) => gap > 0));
  if (!Number.isFinite(least)) return 2;
  for (let digits = 0; digits < 9; digits += 1) {
    const unit = least * 10 ** digits;
    if (Math.abs(unit - Math.round(unit)) < 1e-6 * Math.max(unit, 1)) return digits;
  }
  return Math.min(9, Math.max(0, 1 - Math.floor(Math.log10(least))));
}

function inUnit(values: number[], scale: number, unit: string): string[] {
  const digits = digitsOf(values, scale);
  return values.map((value) => (value === 0 ? "0" : `${(value / scale).toFixed(digits)}${unit && ` ${unit}`}`));
}

// The marks of an axis: one unit and the same digits for all of them.
export function axisTexts(values: number[], unit: string): string[] {
  const most = Math.max(...values.map(Math.abs), 0);
  if (most === 0 || values.length === 0) return values.map(() => "0");
  if (unit === "s" || unit === "ms") {
    const factor = unit === "ms" ? 1e-3 : 1;
    if (most * factor >= 120) return values.map((value) => withUnit(value, unit));
    const [scale, name] = TIME_UNITS.find(([one]) => most * factor >= one) ?? TIME_UNITS[3];
    return inUnit(values, scale / factor, name);
  }
  if (unit === "bytes" || unit === "bytes/s") {
    const power = Math.min(BINARY_UNITS.length - 1, Math.floor(Math.log2(most) / 10));
    return inUnit(values, 1024 ** Math.max(power, 0), BINARY_UNITS[Math.max(power, 0)] + unit.slice(5));
  }
  if (most >= 1e6 || most < 1e-4) return values.map((value) => (value === 0 ? "0" : shortExponent(value)));
  return inUnit(values, 1, unit);
}

// 1e6, 2.5e-7
function shortExponent(value: number) {
  return Number(value.toPrecision(3)).toExponential().replace("e+", "e");
}

// The exponential mean: each value has `weight` of what came before it, 0 to below 1. Corrected at the
// beginning, so that it does not start at 0. Gaps stay gaps.
export function smooth(values: (number | null)[], weight: number): (number | null)[] {
  if (weight <= 0) return values;
  let [sum, norm] = [0, 0];
  return values.map((value) => {
    if (value === null) return null;
    sum = sum * weight + value * (1 - weight);
    norm = norm * weight + (1 - weight);
    return sum / norm;
  });
}

// Many lines as three: the least, the median and the most of them at each place.
export function bandOf(series: Line[]): { low: Line; middle: Line; high: Line } {
  const at = (i: number) =>
    series
      .map(({ values }) => values[i])
      .filter((value) => value !== null && value !== undefined)
      .sort((a, b) => a - b);
  const length = series[0]?.values.length ?? 0;
  const columns = Array.from({ length }, (_, i) => at(i));
  const pick = (label: string, share: number): Line => ({
    label,
    values: columns.map((column) => column[Math.round((column.length - 1) * share)] ?? null),
  });
  return { low: pick("slowest", 1), middle: pick("median", 0.5), high: pick("fastest", 0) };
}

// Lines of another run or another time beside these, at the same places; what has none there is a gap.
export function overlay(
  xs: number[],
  series: Line[],
  other: { xs: number[]; series: Line[] },
  shift: number,
  note: string,
): { xs: number[]; series: Line[] } {
  const moved = other.xs.map((x) => x + shift);
  const all = [...new Set([...xs, ...moved])].sort((a, b) => a - b);
  const place = (own: number[], { label, values }: Line, name: string, dashed: boolean): Line => {
    const known = new Map(own.map((x, i) => [x, values[i]]));
    return { label: name || label, values: all.map((x) => known.get(x) ?? null), dashed };
  };
  return {
    xs: all,
    series: [
      ...series.map((line) => place(xs, line, "", false)),
      ...other.series.map((line) => place(moved, line, `${line.label} ${note}`, true)),
    ],
  };
}

export function csvOf(xName: string, xs: number[], series: Line[]): string {
  const quoted = (text: string) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const head = [xName, ...series.map(({ label }) => quoted(label))].join(",");
  const rows = xs.map((x, i) => [x, ...series.map(({ values }) => values[i] ?? "")].join(","));
  return [head, ...rows].join("\n") + "\n";
}
