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

export interface EventRow {
  pid: number;
  name: string | null;
  timestamp_ns: number | bigint;
  ms: number | null;
  tid: number | null;
  detail: Cell;
}

export interface TimelineEvent {
  lane: string;
  name: string;
  start: number; // in ms since the epoch
  ms: number; // 0 for a moment
  detail: Cell;
}

// In ms since the epoch.
export type Span = readonly [from: number, to: number];

export interface Lane {
  name: string;
  rows: number;
  events: { event: TimelineEvent; row: number }[];
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
