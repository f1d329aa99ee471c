// Stacks and flame graphs.
import type { FoldedStack, Profile } from "./api";
import type { Changes, Child } from "./page";

export interface StackRow {
  tid: number;
  thread_name: string | null;
  has_gil: boolean;
  state: string;
  wait_channel: string | null;
  task: string | null;
  depth: number;
  func: string;
  file: string;
  lineno: number | null;
}

export interface ThreadFrame {
  depth: number | null; // null when locals cannot be asked for
  func: string;
  file: string;
  lineno: number | null;
  isNative: boolean;
}

export interface Thread {
  tid: number;
  name: string | null;
  gil: boolean;
  state: string;
  waits?: string | null;
  task?: string | null;
  frames: ThreadFrame[]; // the innermost first
}

// Of the page: what is open shows what was read of it last.
export interface StacksView {
  target: number;
  signal: AbortSignal;
  open: Map<string, Child>;
  frozen: boolean;
}

export interface FlameFrame {
  label: string;
  file: string;
  kind: string; // python, native or group
}

export interface FlameStack {
  thread: string;
  frames: FlameFrame[]; // the outermost first
  running: boolean;
  gil: boolean;
  weight: number;
}

export interface IntervalRow {
  tid: number;
  stack: string; // frames separated by ;
  on_cpu: boolean;
  has_gil: boolean;
  recent: boolean;
  weight: number; // samples
}

// What a graph is made of.
export type Recorded = Profile | FoldedStack[];

// Of the page: a recording, or what is sampled all the time.
export interface FlameState {
  profile: Profile | null;
  folded: FoldedStack[] | null;
  before: FoldedStack[] | null; // of the interval before the one that is shown
  baseline: Recorded | null;
  startedHere: boolean;
  mayStart: boolean; // somebody has switched it on here
}

export interface FlameActions {
  record: () => void;
  changed: (changes: Changes) => void;
  follow: (on: boolean) => void;
  search: (word: string) => string;
  resetZoom: () => void;
  keepBaseline: () => void;
  interval: () => void; // another one is meant
  save: () => void;
}

export interface FlameNode extends FlameFrame {
  ticks: number;
  idle: number;
  self: number;
  children: Map<string, FlameNode>;
}

export interface FlameBox {
  node: FlameNode;
  depth: number;
  start: number;
  ticks: number;
  parent: FlameBox | null;
}
