// What took too long (python.stalls): what is asked, and what is made of it. Pure.
import { groupBy } from "./cells";
import { shortFile } from "./format";
import type { FoldedStack } from "../types/api";
import type { StallLine, StallPart, StallRow } from "../types/stalls";

export const MOST = 500; // the latest

const COLUMNS = `timestamp_ns, pid, rank, kind, duration, tid, thread_name, func, file, lineno, why, cpu_wait,
  waiting_threads, stack, before, stacks, ended, left_out`;

// `when` is a condition on the time (lib/range.ts).
export function stallsSql(when: string): string {
  return `SELECT ${COLUMNS} FROM python.stalls WHERE ${when} ORDER BY timestamp_ns DESC LIMIT ${MOST}`;
}

export function oneStallSql(timestampNs: string): string {
  return `SELECT ${COLUMNS} FROM python.stalls WHERE timestamp_ns = ${BigInt(timestampNs)} LIMIT 1`;
}

export function placeOf({ func, file, lineno }: Pick<StallRow, "func" | "file" | "lineno">): string {
  return func ? `${func} (${shortFile(file ?? "?")}:${lineno ?? "?"})` : "no stack could be read";
}

// The lines that cost the most, over all of their stalls.
export function byLine(rows: StallRow[]): StallLine[] {
  const lines = [...groupBy(rows, placeOf)].map(([place, list]) => ({
    place,
    kinds: [...new Set(list.map(({ kind }) => kind))],
    count: list.length,
    total: list.reduce((sum, { duration }) => sum + duration, 0),
    longest: list.reduce((most, one) => (one.duration > most.duration ? one : most)),
  }));
  return lines.sort((a, b) => b.total - a.total || b.count - a.count);
}

// What a target wrote is checked before it is used.
export function partsOf({ stacks }: Pick<StallRow, "stacks">): StallPart[] {
  try {
    const list: unknown = JSON.parse(stacks ?? "[]");
    if (!Array.isArray(list)) return [];
    return list.filter(
      (one): one is StallPart =>
        typeof one?.at === "number" && typeof one.seconds === "number" && typeof one.stack === "string",
    );
  } catch {
    return [];
  }
}

// As GET samples has stacks, weighed in milliseconds; of a moment what was before it.
export function foldedOf(row: StallRow): FoldedStack[] {
  const parts = partsOf(row);
  const during = parts.filter(({ at, seconds }) => at + seconds > 0);
  return (during.length > 0 ? during : parts)
    .filter(({ stack }) => stack !== "")
    .map(({ at, seconds, stack }) => ({
      tid: row.tid,
      thread_name: row.thread_name ?? "",
      stack: stack.split(";"),
      on_cpu: true,
      has_gil: false,
      weight: Math.max(1, Math.round(1000 * (during.length > 0 ? Math.min(seconds, at + seconds) : seconds))),
    }));
}
