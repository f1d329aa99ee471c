// Made by tools/contract.py from src/daemon/openapi.json: change that.
// What comes over the HTTP API.

export interface GetHealthAnswer {
  status: string;
  version: string;
  pid: number;
}

export interface GetReadyAnswer {
  status: string;
  targets?: number;
}

export interface Target {
  pid: number;
  user?: string;
  state: "silent" | "live" | "closing" | "ended";
  python?: string;
  how?: string;
  started_ns?: number;
  version?: string;
  command: string;
  job?: object; // where it stands in a job, as its launcher says
}

export interface GetTargetsAnswer {
  targets: Target[];
}

export interface Finding {
  class: string;
  severity: "error" | "warning";
  ranks: number[];
  pids?: number[];
  host?: string;
  node?: string; // where its host is asked, when that is another one
  evidence: string;
  next: string;
  rule?: string;
}

export interface GetDiagnoseAnswer {
  findings: Finding[];
  rules: number;
  problems?: string[];
  receipt?: object; // hosts expected, answered and failed
}

export interface GetNodeAnswer {
  instance: string; // drawn when it started
  host?: string;
  version?: string;
  ranks?: number;
  wall_ns: number;
  knows?: string[]; // addresses of others
}

export interface Column {
  name: string;
  type: string;
}

export interface GetTablesAnswer {
  columns: Column[];
  rows: unknown[][];
}

export interface PostQueryAnswer {
  columns: Column[];
  rows: unknown[][];
}

export interface GetBacktraceAnswer {
  pid: number;
  threads: object[];
}

export interface GetSourceAnswer {
  file: string;
  first_line: number;
  lines: string[];
}

export interface GilHolder {
  tid: number;
  name: string;
  stack: string[];
}

export interface RunningCode {
  tid: number;
  for_ms: number;
  stack: string[];
}

export interface PostEvalAnswer {
  outcome: string;
  stdout: string;
  stderr: string;
  value?: string;
  traceback?: string;
  exception?: string;
  note?: string;
  duration_us?: number;
  gil_wait_us?: number;
  gil?: string;
  gil_holder?: GilHolder;
  running?: RunningCode;
}

export interface PostDebuggerAnswer {
  stops: number;
}

export interface Setting {
  name: string;
  value: string;
  default: string;
  description: string;
  type?: string;
  minimum?: number;
  maximum?: number;
  choices?: string[];
}

export interface GetConfigAnswer {
  settings: Setting[];
}

export interface PostConfigAnswer {
  settings: Setting[];
}

export interface GetProcessesAnswerProcesses {
  pid: number;
  command?: string;
  job?: string;
  role?: string;
  rank?: number;
  probed: boolean;
  state?: string;
  cpu_percent?: number;
  rss?: number;
  doing?: string;
}

export interface GetProcessesAnswer {
  processes: GetProcessesAnswerProcesses[];
}

export interface PostInjectAnswer {
  pid: number;
  version: string;
  already?: boolean;
  held_us?: number;
}

export interface GetContract {
  health: GetHealthAnswer;
  ready: GetReadyAnswer;
  targets: GetTargetsAnswer;
  diagnose: GetDiagnoseAnswer;
  node: GetNodeAnswer;
  tables: GetTablesAnswer;
  backtrace: GetBacktraceAnswer;
  source: GetSourceAnswer;
  config: GetConfigAnswer;
  processes: GetProcessesAnswer;
}

export interface PostContract {
  query: PostQueryAnswer;
  eval: PostEvalAnswer;
  debugger: PostDebuggerAnswer;
  config: PostConfigAnswer;
  inject: PostInjectAnswer;
}
