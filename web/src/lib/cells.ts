// Values of query results: how they are written, compared and drawn.
import { parseTime } from "./format";
import type { Cell, Column } from "../types/api";
import type { BarChart, ColumnAt, Line, LineChart, Lines } from "../types/tables";

const NUMBERS = new Set(["BIGINT", "DOUBLE"]);

export function isNumeric(type: string) {
  return NUMBERS.has(type);
}

export function isTime(type: string) {
  return type === "TIMESTAMPTZ" || type === "TIMESTAMP";
}

export function cellText(value: Cell | undefined) {
  if (value === null || value === undefined) return "NULL";
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}

// Numbers by size, everything else as text; NULL last.
export function compareCells(a: Cell, b: Cell): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  const numeric = (value: Cell) => typeof value === "number" || typeof value === "bigint";
  if (numeric(a) && numeric(b)) return a < b ? -1 : Number(a > b);
  return cellText(a).localeCompare(cellText(b));
}

// Map of key → items, in the order in which keys come.
export function groupBy<T, K>(list: readonly T[], keyOf: (item: T) => K) {
  const groups: Map<K, T[]> = new Map();
  for (const item of list) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}

// For drawing: a double, NULL and NaN as a gap.
export function plotNumber(value: Cell) {
  if (typeof value === "bigint") return Number(value);
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

// Which columns of a result make a chart: one x (a time, else a column called step, else the first
// number), the other numbers as y, and one text column that splits rows into series when x repeats.
export function chartable(columns: Column[], rows: Cell[][]): LineChart | BarChart | null {
  const numbers = columns.map((column, i) => ({ ...column, i })).filter(({ type }) => isNumeric(type));
  const times = columns.map((column, i) => ({ ...column, i })).filter(({ type }) => isTime(type));
  const x = times[0] ?? numbers.find(({ name }) => /^(step|epoch|bucket)$/.test(name)) ?? null;
  const ys = numbers.filter(({ i, name }) => i !== x?.i && !/^(pid|rank|tid|timestamp_ns)$/.test(name));
  if (rows.length === 0 || ys.length === 0) return null;
  const texts = columns.map((column, i) => ({ ...column, i })).filter(({ type }) => type === "VARCHAR");
  if (x === null) return texts.length > 0 ? { kind: "bars", label: texts[0], ys } : null;
  return {
    kind: "lines",
    x,
    ys,
    isTime: isTime(x.type),
    split: texts.find(({ name }) => name !== "host") ?? null,
  };
}

// One line for each y, or for each value of the splitting column.
export function toLines(
  rows: Cell[][],
  { x, isTime: timed, split }: LineChart,
  ys: ColumnAt[],
  maxSeries: number = 12,
): Lines {
  const lines: Map<string, Map<number, number | null>> = new Map();
  const positions: Set<number> = new Set();
  for (const row of rows) {
    const at = timed ? parseTime(row[x.i]) / 1000 : plotNumber(row[x.i]);
    if (at === null || Number.isNaN(at)) continue;
    positions.add(at);
    for (const y of ys) {
      const label = split ? `${cellText(row[split.i])}${ys.length > 1 ? ` ${y.name}` : ""}` : y.name;
      let line = lines.get(label);
      if (!line) {
        if (lines.size >= maxSeries) continue;
        lines.set(label, (line = new Map()));
      }
      line.set(at, plotNumber(row[y.i]));
    }
  }
  const xs = [...positions].sort((a, b) => a - b);
  const series = [...lines].map(([label, values]) => ({
    label,
    values: xs.map((at) => values.get(at) ?? null),
  }));
  return { xs, series: split ? sortByLabel(series) : series };
}

// "rank 2" before "rank 10".
export function sortByLabel(series: Line[]) {
  return series.sort((a, b) => a.label.localeCompare(b.label, "en", { numeric: true }));
}
