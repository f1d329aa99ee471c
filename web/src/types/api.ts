// What comes over the HTTP API (src/wire/contract.h).

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
  python?: string;
  how?: string;
  version?: string;
}

export interface Setting {
  name: string;
  value: string;
  default: string;
  description: string;
}

export interface Finding {
  class: string;
  severity: "error" | "warning";
  ranks: number[];
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

export interface Profile extends Sampling {
  threads: { tid: number; name: string }[];
  frames: ProfileFrame[];
  stacks: number[][]; // outermost first
  samples: ProfileSamples;
}

export interface FoldedStack {
  tid: number;
  thread_name: string;
  stack: string[];
  on_cpu: boolean;
  has_gil: boolean;
  weight: number;
}

export interface Printed {
  stdout: string;
  stderr: string;
}

export interface EvalAnswer extends Printed {
  value?: string;
  traceback?: string;
  exception?: string;
  note?: string;
  duration_us?: number;
  gil_holder?: { tid: number; name: string; stack: string[] };
}

export interface GetAnswers {
  config: { settings: Setting[] };
  diagnose: { findings: Finding[]; rules: number };
  samples: Sampling & { running: boolean; folded: FoldedStack[] };
  source: { first_line: number; lines: string[] };
  status: { version: string; pid: number; uptime_s: number; targets: number; rss_bytes: number };
  targets: { targets: Target[] };
}

export interface PostAnswers {
  config: { settings: Setting[] };
  eval: EvalAnswer;
  interrupt: object;
  profile: Profile;
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
