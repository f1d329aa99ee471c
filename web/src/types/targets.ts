// Processes and ranks: rows of the queries about them, and what is made of these.
import type { Target } from "./api";

export interface ProcessRow {
  pid: number;
  cmdline: string;
  state: string;
  started: string;
  threads: number;
  rss: number;
  vms: number;
  fds: number;
}

export interface PlaceRow {
  pid: number;
  place: string;
  func: string;
  file: string;
  lineno: number | null;
  leaf: string | null; // the innermost function of all, of libraries too
}

export interface CrashRow {
  pid: number;
  reason: string;
  exit_code: number | null;
  signal: string | null;
  message: string | null;
}

export interface ThreadRow {
  tid: number;
  name: string | null;
  state: string | null;
  cpu: number | null;
  core: number | null;
  waits: string | null;
  taken_away: number | bigint | null;
}

export interface CpuRow {
  pid: number;
  rank: number | null;
  cpu: number | null;
}

export interface GpuRow {
  pid: number;
  percent: number | null; // of all its devices
  bytes: number | null;
}

export interface TrainingRow {
  pid: number;
  step: number | null;
  seconds?: number | null; // of a step
}

export interface Facts extends Target {
  process: ProcessRow | null;
  cpu: number | null;
  gpu: GpuRow | null;
  rank: number | null;
  at: PlaceRow | null;
  step: number | null;
  stepSeconds: number | null;
  crash: CrashRow | null;
  children: number | null;
  upSeconds: number | null;
}

// Of RATES_SQL: steps a second in the two seconds from `bin` on, in s since the epoch.
export interface RateRow {
  pid: number;
  bin: number;
  traced: boolean;
  rate: number;
}

export interface Job {
  key: string;
  name: string | null; // null: a process that is no rank
  members: Facts[];
  live: Facts[];
  first: Facts;
  size: number | null; // ranks it has, here and elsewhere
}

// Ranks of two jobs are never put together.
export interface OfJob {
  job: string | null;
}

export interface RankRow extends OfJob {
  host: string;
  pid: number;
  rank: number | null;
  state: string;
  step: number | null;
  duration: number | null;
  data_wait: number | null;
  waiting: number | null;
  cpu: number | null;
  rss: number | null;
  stored?: boolean; // seen in the store: its pid is one of some host
}

export interface RankMetric {
  name: "duration" | "waiting" | "data_wait" | "step" | "cpu" | "rss";
  title: string;
  format: (value: number) => string;
}

export interface StackGroup extends OfJob {
  processes: number;
  ranks: string | null; // a list as JSON
  innermost: string | null;
  stack: string | null;
}

export interface RankStep extends OfJob {
  rank: number;
  step: number;
  duration: number | null;
}

export interface SlowestRow extends OfJob {
  step: number;
  rank: number; // whose own time was the longest
  slowest: number | null; // s
  middle: number | null;
}

export interface ClusterRows {
  ranks: RankRow[];
  stacks: StackGroup[];
  steps: RankStep[];
  slowest: SlowestRow[];
}

export interface HeatField {
  ranks: number[];
  steps: number[];
  cells: (number | null)[][];
  low: number; // the shortest, in seconds
  high: number;
}
