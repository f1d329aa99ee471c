// What comes over the HTTP API; most of it is made from its contract (src/daemon/openapi.json).
import type { Column, GetContract, PostContract } from "./contract";

export type { Column, Finding, PostEvalAnswer as EvalAnswer, Setting, Target } from "./contract";

export type Cell = string | number | bigint | boolean | object | null;

export interface Rows {
  columns: Column[];
  rows: Cell[][];
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

export interface GetAnswers {
  config: GetContract["config"];
  diagnose: GetContract["diagnose"];
  samples: Sampling & { running: boolean; folded: FoldedStack[] };
  source: GetContract["source"];
  status: { version: string; pid: number; uptime_s: number; targets: number; rss_bytes: number };
  targets: GetContract["targets"];
}

export interface PostAnswers {
  config: PostContract["config"];
  eval: PostContract["eval"];
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
