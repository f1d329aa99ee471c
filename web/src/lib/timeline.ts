// Events of several tables on one axis of time: tracks of ranks, searched, summed, and as a trace. Pure.
import { groupBy } from "./cells";
import type {
  CallRow,
  CounterRow,
  EventRow,
  Group,
  PartTime,
  PhaseRow,
  StepPart,
  Sum,
  TimelineEvent,
  Track,
} from "../types/training";

const CLOCK_MS = 0.05; // what follows at once may seem to overlap by that much
const TOUCHING = 0.05; // and steps, which follow each other, by this share of the shorter one
export const MOST = 20_000; // of each kind, the latest

const NAMED = "coalesce(rank::VARCHAR, '') AS rank, pid";
const PHASES = ["data_wait", "forward", "backward", "optimizer"] as const;
const PART_OF_STAGE: Record<string, StepPart> = { forward: "forward", backward: "backward", step: "optimizer" };
export const STEPS = "Steps";

// In the order in which they stand in a group.
const KINDS = [
  {
    track: "Modules",
    sql: `SELECT ${NAMED}, operation_name AS name, timestamp_ns, duration_ms AS ms, NULL AS tid, module_type AS detail, step, stage, phase FROM python.torch_trace`,
  },
  {
    track: "Collectives",
    sql: `SELECT ${NAMED}, op AS name, timestamp_ns, duration_ms AS ms, NULL AS tid, process_group || ' #' || seq AS detail FROM python.collectives`,
  },
  {
    track: "Spans",
    sql: `SELECT ${NAMED}, name, timestamp_ns, duration_ms AS ms, tid, attributes AS detail FROM python.spans`,
  },
  {
    track: "Stalls",
    sql: `SELECT ${NAMED}, kind || coalesce(' in ' || func, '') AS name, timestamp_ns, duration * 1000 AS ms, tid, why AS detail FROM python.stalls`,
  },
  {
    track: "Garbage collection",
    sql: `SELECT ${NAMED}, 'generation ' || generation AS name, timestamp_ns, duration_ms AS ms, NULL AS tid, collected || ' objects freed' AS detail FROM python.gc`,
  },
  {
    track: "Exceptions",
    sql: `SELECT ${NAMED}, type AS name, timestamp_ns, NULL AS ms, tid, message AS detail FROM python.exceptions`,
  },
];
const STEPS_SQL = `SELECT ${NAMED}, step, timestamp_ns, duration * 1000 AS ms, phase, data_wait, forward, backward, optimizer
  FROM python.torch_steps`;
const COUNTERS: [name: string, unit: string, sql: string][] = [
  ["CPU", "%", `SELECT ${NAMED}, timestamp_ns, cpu_percent AS value FROM system.cpu`],
  ["Memory", "bytes", `SELECT ${NAMED}, timestamp_ns, rss AS value FROM system.memory`],
  ["GPU", "%", `SELECT ${NAMED}, timestamp_ns, util_percent AS value FROM system.gpu`],
];

// `when` is a condition on the time (lib/range.ts).
export function timelineQueries(when: string): Record<string, string> {
  const where = `WHERE ${when} ORDER BY timestamp_ns DESC LIMIT ${MOST}`;
  const counters = COUNTERS.map(([name, , sql]) => [`counter ${name}`, `${sql} ${where}`]);
  const events = KINDS.map(({ track, sql }) => [track, `${sql} ${where}`]);
  return Object.fromEntries([[STEPS, `${STEPS_SQL} ${where}`], ...events, ...counters]);
}

const ownerOf = ({ rank, pid }: { rank: string; pid: number }) => (rank === "" ? `pid ${pid}` : `rank ${rank}`);

// The calls of torch within the steps that are traced in full say when their parts were: by owner, step and phase.
// Passes that follow each other are one part until something else comes in between.
export function partTimes(calls: CallRow[]): Map<string, PartTime[]> {
  const times: Map<string, PartTime[]> = new Map();
  const known = calls.filter(({ step, stage, ms }) => step !== null && ms !== null && stage in PART_OF_STAGE);
  for (const [key, own] of groupBy(known, partKey)) {
    const parts: PartTime[] = [];
    const spans = own
      .map(({ stage, timestamp_ns: at, ms }) => ({ part: PART_OF_STAGE[stage], start: Number(at) / 1e6, ms: ms! }))
      .sort((a, b) => a.start - b.start || b.ms - a.ms);
    for (const { part, start, ms } of spans) {
      const last = parts[parts.length - 1];
      if (last?.part === part) last.ms = Math.max(last.ms, start + ms - last.start);
      else parts.push({ part, start, ms });
    }
    times.set(key, parts);
  }
  return times;
}

const partKey = (row: Pick<CallRow, "rank" | "pid" | "step" | "phase">) =>
  `${ownerOf(row)}\n${row.step}\n${row.phase ?? "train"}`;

// A step, and below it its parts: at their times where calls were recorded, else in the order in which they come, of
// which only the length is known. A part that a step has several times is one then.
function stepEvents(row: PhaseRow, times: Map<string, PartTime[]>): TimelineEvent[] {
  const start = Number(row.timestamp_ns) / 1e6;
  const ms = row.ms ?? 0;
  const label = row.phase && row.phase !== "train" ? `${row.phase} ` : "step ";
  const step = { name: `${label}${row.step ?? ""}`, kind: STEPS, start, ms, detail: "", row: 0 };
  const part = (kind: StepPart, at: number, took: number, how: string): TimelineEvent => ({
    name: kind.replace("_", " "),
    kind,
    start: at,
    ms: took,
    detail: `${step.name}${how}`,
    row: 1,
  });
  const took = (name: StepPart) => (row[name] ?? 0) * 1000;
  const timed = times.get(partKey(row))?.filter((one) => one.start >= start - CLOCK_MS && one.start < start + ms) ?? [];
  const isComplete = ["forward", "backward"].every(
    (name) => took(name as StepPart) === 0 || timed.some((one) => one.part === name),
  );
  if (timed.length > 0 && isComplete) {
    const wait = Math.min(took("data_wait"), timed[0].start - start); // a batch comes before the first pass
    const waited = wait > 0 ? [part("data_wait", start, wait, "")] : [];
    return [step, ...waited, ...timed.map((one) => part(one.part, one.start, one.ms, ""))];
  }
  const parts: TimelineEvent[] = [];
  let at = start;
  for (const phase of PHASES) {
    if (took(phase) > 0) parts.push(part(phase, at, took(phase), ", in order: when was not recorded"));
    at += took(phase);
  }
  return [step, ...parts];
}

function eventOf({ name, timestamp_ns: start, ms, tid, detail }: EventRow, kind: string): TimelineEvent {
  const thread = tid === null || tid === undefined ? "" : `thread ${tid}`;
  const own = detail === null || detail === undefined ? "" : String(detail);
  return {
    name: name ?? "?",
    kind,
    start: Number(start) / 1e6,
    ms: ms ?? 0,
    detail: [own, kind === "Spans" ? "" : thread].filter(Boolean).join(", "),
    row: 0,
    thread: kind === "Spans" ? thread : "",
  };
}

// Rows of events that overlap, so that one lies below what it is inside of.
export function placeEvents(events: TimelineEvent[]): { events: TimelineEvent[]; rows: number } {
  const sorted = [...events].sort((a, b) => a.start - b.start || b.ms - a.ms);
  const ends: number[] = [];
  for (const event of sorted) {
    let row = ends.findIndex((end) => end <= event.start + CLOCK_MS);
    if (row < 0) row = ends.length;
    ends[row] = event.start + event.ms;
    event.row = row;
  }
  return { events: sorted, rows: Math.max(1, ends.length) };
}

// Steps follow each other: where clocks say that one begins before the last has ended, that one is cut. What
// overlaps by more than clocks may differ (an evaluation within a step) is in the row of parts.
function placeSteps(events: TimelineEvent[]): { events: TimelineEvent[]; rows: number } {
  const sorted = [...events].sort((a, b) => a.start - b.start || a.row - b.row);
  const last: TimelineEvent[] = [];
  for (const event of sorted) {
    const old = last[event.row];
    if (old && old.start + old.ms > event.start) {
      const over = old.start + old.ms - event.start;
      if (event.row === 1 || over <= TOUCHING * Math.min(old.ms, event.ms) || over <= 1) old.ms -= over;
    }
    last[event.row] = event;
  }
  return { events: sorted, rows: last.length };
}

// Groups by rank, tracks inside of them in one order.
export function groupsOf(records: Record<string, unknown[]>): Group[] {
  const tracks: Map<string, Map<string, TimelineEvent[]>> = new Map(); // by owner and name
  const add = (owner: string, name: string, events: TimelineEvent[]) => {
    const own = tracks.get(owner) ?? new Map<string, TimelineEvent[]>();
    tracks.set(owner, own);
    const list = own.get(name);
    if (list) for (const event of events) list.push(event);
    else own.set(name, events);
  };
  const times = partTimes((records.Modules ?? []) as CallRow[]);
  for (const row of (records[STEPS] ?? []) as PhaseRow[]) add(ownerOf(row), STEPS, stepEvents(row, times));
  for (const { track } of KINDS) {
    for (const row of (records[track] ?? []) as EventRow[]) {
      const event = eventOf(row, track);
      add(ownerOf(row), event.thread ? `${track}, ${event.thread}` : track, [event]);
    }
  }
  const counters: Map<string, Track[]> = new Map();
  for (const [name, unit] of COUNTERS) {
    const rows = ((records[`counter ${name}`] ?? []) as CounterRow[]).filter(({ value }) => value !== null);
    for (const [owner, own] of groupBy(rows, ownerOf)) {
      const points = own.map((row): [number, number] => [Number(row.timestamp_ns) / 1e6, Number(row.value)]);
      const track = { name, unit, kind: "counter", rows: 2, events: [], points: points.sort((a, b) => a[0] - b[0]) };
      counters.set(owner, [...(counters.get(owner) ?? []), track]);
    }
  }
  const owners = [...new Set([...tracks.keys(), ...counters.keys()])];
  const groups = owners.map((owner) => ({
    name: owner,
    tracks: [
      ...[...(tracks.get(owner) ?? [])].map(([name, events]): Track => {
        const placed = name === STEPS ? placeSteps(events) : placeEvents(events);
        return { name, kind: events[0].kind, ...placed, points: [], unit: "" };
      }),
      ...(counters.get(owner) ?? []),
    ],
  }));
  return groups.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
}

export function matches(event: TimelineEvent, word: string): boolean {
  return word !== "" && `${event.name} ${event.detail}`.toLowerCase().includes(word);
}

// What there is between two moments, by name: how often, how long in all within them.
export function sumsOf(groups: Group[], from: number, to: number): Sum[] {
  const sums: Map<string, Sum> = new Map();
  for (const { tracks } of groups) {
    for (const { name: track, events } of tracks) {
      for (const { name, start, ms, kind } of events) {
        if (start > to || start + ms < from) continue;
        const label = kind === STEPS ? name.replace(/ \d+$/, "s") : name;
        const key = `${track}\n${label}`;
        const sum = sums.get(key) ?? { track, name: label, count: 0, ms: 0, longest: 0 };
        const inside = Math.min(start + ms, to) - Math.max(start, from);
        sums.set(key, { ...sum, count: sum.count + 1, ms: sum.ms + inside, longest: Math.max(sum.longest, ms) });
      }
    }
  }
  return [...sums.values()].sort((a, b) => b.ms - a.ms || b.count - a.count);
}

// For Perfetto and chrome://tracing: microseconds, a process for each group, a thread for each track.
export function toChromeTrace(groups: Group[]) {
  const traceEvents = groups.flatMap(({ name: owner, tracks }, g) => [
    { ph: "M", name: "process_name", pid: g + 1, args: { name: owner } },
    ...tracks.flatMap(({ name: track, events, points }, t) => [
      { ph: "M", name: "thread_name", pid: g + 1, tid: t + 1, args: { name: track } },
      ...events.map(({ name, start, ms, detail }) => ({
        name,
        cat: track,
        ph: ms > 0 ? "X" : "i",
        ...(ms > 0 ? { dur: ms * 1000 } : { s: "t" }),
        ts: start * 1000,
        pid: g + 1,
        tid: t + 1,
        args: detail ? { detail } : {},
      })),
      ...points.map(([at, value]) => ({ name: track, ph: "C", ts: at * 1000, pid: g + 1, args: { value } })),
    ]),
  ]);
  return { traceEvents, displayTimeUnit: "ms" };
}
