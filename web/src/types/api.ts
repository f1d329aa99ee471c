// What comes over the HTTP API (src/wire/contract.h).

import type { FlameClass } from "../lib/flame_palette";
import type { PostEvalAnswer as EvalAnswer } from "./contract";

export type { PostEvalAnswer as EvalAnswer } from "./contract";

export type Cell = string | number | bigint | boolean | object | null;

export interface Column {
  name: string;
  type: string;
}

export interface Rows {
  columns: Column[];
  rows: Cell[][];
}

export interface Target {
  pid: number;
  state: string; // silent, live, closing, ended
  command: string;
  job?: { name: string; role?: string | null; rank?: number | null; world_size?: number | null } | null;
  python?: string;
  how?: string;
  version?: string;
}

export interface Setting {
  name: string;
  value: string;
  default: string;
  description: string;
  type: "seconds" | "bytes" | "count" | "share" | "flag" | "choice" | "words" | "path" | "text";
  minimum?: number;
  maximum?: number;
  choices?: string[];
}

export type Right = "none" | "read" | "profile" | "eval" | "own";

// A Python process, probed or not.
export interface Found {
  pid: number;
  command: string;
  job: string | null;
  role: string;
  rank: number | null;
  probed: boolean;
  state: string;
  cpu_percent: number;
  rss: number;
  doing: string | null;
}

export interface Finding {
  class: string;
  severity: "error" | "warning";
  ranks: number[];
  pids: number[];
  job: string | null;
  evidence: string;
  next: string;
}

export interface Sampling {
  period_ns: number;
  samples_taken: number;
  lost: Record<string, number>;
}

// Lists of one length each: the i-th of all of them is the i-th sample.
export interface ProfileSamples {
  start_ns?: number[];
  weight: number[];
  thread: number[];
  stack: number[];
  on_cpu: boolean[];
  has_gil: boolean[];
}

export interface ProfileFrame {
  kind: string;
  func: string;
  file: string;
  lineno: number;
  first_line: number;
}

export interface ProfileThread {
  pid?: number;
  tid: number;
  name: string;
  process?: string;
  rank?: number; // of its job, in a recording of several
}

export interface Profile extends Sampling {
  threads: ProfileThread[];
  frames: ProfileFrame[];
  stacks: number[][]; // outermost first
  samples: ProfileSamples;
}

export interface FoldedStack {
  tid: number;
  thread_name: string;
  stack: string[];
  classes?: FlameClass[]; // whose code each of its frames is
  on_cpu: boolean;
  has_gil: boolean;
  weight: number;
}

export interface Printed {
  stdout: string;
  stderr: string;
}

export interface GetAnswers {
  config: { settings: Setting[] };
  diagnose: { findings: Finding[]; rules: number };
  samples: Sampling & { running: boolean; folded: FoldedStack[] };
  source: { first_line: number; lines: string[] };
  processes: { processes: Found[] };
  status: { right: Right; version: string; pid: number; uptime_s: number; targets: number; rss_bytes: number };
  targets: { targets: Target[] };
}

export interface PostAnswers {
  config: { settings: Setting[] };
  eject: object;
  eval: EvalAnswer;
  gpu_memory: { snapshot: number; blocks: number; problem: string };
  inject: { pid: number; version: string; already?: boolean; held_us?: number };
  interrupt: object;
  profile: Profile;
  torch_profile: { profile: number; steps: number; ops: number; gpu: number; problem: string };
}

export interface ErrorBody {
  code: string;
  message: string;
  hint?: string;
}

// Of GET events.
export interface StreamEvents {
  targets: GetAnswers["targets"];
  results: Record<string, Rows>;
}
