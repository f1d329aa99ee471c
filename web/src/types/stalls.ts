// Rows of python.stalls.
export interface StallRow {
  timestamp_ns: number | bigint; // when it began
  pid: number;
  rank: number | null;
  kind: string;
  duration: number; // s; 0 for a moment
  tid: number;
  thread_name: string | null;
  func: string | null;
  file: string | null;
  lineno: number | null;
  why: string | null;
  cpu_wait: number | null;
  waiting_threads: number | null;
  stack: string | null; // frames separated by ;, the outermost first
  before: string | null;
  stacks: string | null; // StallPart[] as JSON
  ended: boolean;
  left_out: number | null;
}

// One stack of the thread, `at` in seconds from the beginning of the stall.
export interface StallPart {
  at: number;
  seconds: number;
  stack: string;
}

// The stalls of one line.
export interface StallLine {
  place: string;
  kinds: string[];
  count: number;
  total: number; // s
  longest: StallRow;
}
