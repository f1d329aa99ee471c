// Steps, modules and events: rows of the queries about them, and what is made of these.
import type { Cell } from "./api";

export type StepPart = "data_wait" | "forward" | "backward" | "optimizer";

export type StepRow = Record<StepPart | "step" | "duration" | "overhead", number | null> & {
  job?: string | null;
};

export interface ModuleRow {
  module: string | null;
  type: string | null;
  stage: string;
  calls: number;
  mean_ms: number | null;
  total_ms: number | null;
  peak_mb: number | null;
}

export interface Module {
  module: string | null;
  type: string | null;
  calls: number;
  total: number;
  peak: number | null;
  stages: Record<string, number | null>;
}

export interface TrainingRows {
  steps: StepRow[];
  ranks?: ValueRow[];
  modules: ModuleRow[];
  metrics: ValueRow[];
  variables: ValueRow[];
}

export interface ValueRow {
  name: string;
  who: string;
  step: number | null;
  time: number;
  value: number;
}

// Whose it is: the rank as text, "" for a process that is none.
interface Owned {
  rank: string;
  pid: number;
  timestamp_ns: number | bigint;
}

export interface EventRow extends Owned {
  name: string | null;
  ms: number | null;
  tid: number | null;
  detail: Cell;
}

// A call of a module or an optimizer.
export interface CallRow extends EventRow {
  step: number | null;
  stage: string;
  phase: string | null;
}

// When a part of a step was, in ms.
export interface PartTime {
  part: StepPart;
  start: number;
  ms: number;
}

export interface PhaseRow extends Owned, Record<StepPart, number | null> {
  step: number | null;
  ms: number | null;
  phase: string | null;
}

export interface CounterRow extends Owned {
  value: number | bigint | null;
}

export interface TimelineEvent {
  name: string;
  kind: string; // of which colour it is
  start: number; // in ms since the epoch
  ms: number; // 0 for a moment
  detail: string;
  row: number; // within its track
  thread?: string;
}

// In ms since the epoch.
export type Span = readonly [from: number, to: number];

// Events by their start, or points of a counter.
export interface Track {
  name: string;
  kind: string;
  rows: number;
  events: TimelineEvent[];
  points: [at: number, value: number][];
  unit: string;
}

export interface Group {
  name: string;
  tracks: Track[];
}

export interface Sum {
  track: string;
  name: string;
  count: number;
  ms: number;
  longest: number;
}

export interface Area {
  x: number;
  y: number;
  w: number;
  h: number;
}

// Where an entry lies in a map of areas.
export interface Box<T> extends Area {
  entry: T;
}
