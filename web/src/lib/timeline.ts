// Events of several tables on one axis of time. Pure; tests beside it.
import { groupBy } from "./cells";
import type { EventRow, Lane, TimelineEvent } from "../types/training";

const CLOCK_MS = 0.001; // what follows at once may seem to overlap by that much
export const MOST = 4000; // of each kind, the latest

const KINDS = [
  {
    lane: "Steps",
    sql: "SELECT pid, 'step ' || step AS name, timestamp_ns, duration * 1000 AS ms, NULL AS tid, NULL AS detail FROM python.torch_steps",
  },
  {
    lane: "Modules",
    sql: "SELECT pid, operation_name AS name, timestamp_ns, duration_ms AS ms, NULL AS tid, module_type AS detail FROM python.torch_trace",
  },
  {
    lane: "Spans",
    sql: "SELECT pid, name, timestamp_ns, duration_ms AS ms, tid, attributes AS detail FROM python.spans",
  },
  {
    lane: "Collectives",
    sql: "SELECT pid, op AS name, timestamp_ns, duration_ms AS ms, NULL AS tid, process_group || ' #' || seq AS detail FROM python.collectives",
  },
  {
    lane: "Garbage collection",
    sql: "SELECT pid, 'generation ' || generation AS name, timestamp_ns, duration_ms AS ms, NULL AS tid, collected || ' objects freed' AS detail FROM python.gc",
  },
  {
    lane: "Exceptions",
    sql: "SELECT pid, type AS name, timestamp_ns, NULL AS ms, tid, message AS detail FROM python.exceptions",
  },
];

export function timelineQueries(seconds: string | number) {
  const where = `WHERE timestamp > now() - interval '${Number(seconds)} seconds' ORDER BY timestamp_ns DESC LIMIT ${MOST}`;
  return Object.fromEntries(KINDS.map(({ lane, sql }) => [lane, `${sql} ${where}`]));
}

// Of the rows of each of these.
export function eventsOf(records: Record<string, EventRow[]>, target: number | null): TimelineEvent[] {
  return KINDS.flatMap(({ lane }) => records[lane].map((row) => toEvent(row, lane, target)));
}

function toEvent(
  { pid, name, timestamp_ns: start, ms, tid, detail }: EventRow,
  lane: string,
  target: number | null,
): TimelineEvent {
  const owner = [target ? "" : `pid ${pid}`, tid === null || lane === "Exceptions" ? "" : `thread ${tid}`]
    .filter(Boolean)
    .join(", ");
  return {
    lane: owner ? `${lane}, ${owner}` : lane,
    name: name ?? "?",
    start: Number(start) / 1e6,
    ms: ms ?? 0,
    detail: detail ?? "",
  };
}

// Lanes with rows: an event lies below what it is inside of, or beside what it overlaps.
export function arrange(events: TimelineEvent[]): Lane[] {
  const lanes = groupBy(events, ({ lane }) => lane);
  return [...lanes].map(([name, list]) => {
    const sorted = [...list].sort((a, b) => a.start - b.start || b.ms - a.ms);
    const ends: number[] = []; // of the last event in each row
    const placed = sorted.map((event) => {
      let row = ends.findIndex((end) => end <= event.start + CLOCK_MS);
      if (row < 0) row = ends.length;
      ends[row] = event.start + event.ms;
      return { event, row };
    });
    return { name, rows: Math.max(1, ends.length), events: placed };
  });
}

// For Perfetto and chrome://tracing: microseconds, one track for each lane.
export function toChromeTrace(events: TimelineEvent[]) {
  const lanes = [...new Set(events.map(({ lane }) => lane))];
  const names = lanes.map((name, i) => ({
    ph: "M",
    name: "thread_name",
    pid: 1,
    tid: i + 1,
    args: { name },
  }));
  const traced = events.map(({ lane, name, start, ms, detail }) => ({
    name,
    cat: lane,
    ph: ms > 0 ? "X" : "i",
    ...(ms > 0 ? { dur: ms * 1000 } : { s: "t" }),
    ts: start * 1000,
    pid: 1,
    tid: lanes.indexOf(lane) + 1,
    args: detail ? { detail: String(detail) } : {},
  }));
  return { traceEvents: [...names, ...traced], displayTimeUnit: "ms" };
}
