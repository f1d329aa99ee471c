// Stacks and flame graphs.
import type { FlameClass } from "../lib/flame_palette";
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
  ask: (file: string, line: number) => void; // for a log point
}

export interface FlameFrame {
  label: string;
  file: string;
  kind: FlameClass;
}

export interface FlameStack {
  rank: string; // or the process; "" where there is one only
  thread: string;
  frames: FlameFrame[]; // the outermost first
  running: boolean;
  gil: boolean;
  weight: number;
  start: number; // the order of samples
}

// Of neighbours: by their names, the heaviest first, or as they came.
export type FlameOrder = "name" | "heavy" | "time";

export interface IntervalRow {
  tid: number;
  stack: string; // frames separated by ;
  on_cpu: boolean;
  has_gil: boolean;
  recent: boolean;
  weight: number; // samples
}

// What a graph is made of: of one process, or of several ranks.
export type Recorded = { rank: string; profile?: Profile; folded?: FoldedStack[] }[];

export interface FlameActions {
  record: () => void;
  changed: (changes: Changes) => void;
  follow: (on: boolean) => void;
  keepBaseline: () => void;
  interval: () => void; // another one is meant
  save: () => void;
}

export interface FlameNode extends FlameFrame {
  ticks: number;
  idle: number;
  self: number;
  turn: number; // in time, of the first of its samples
  ranks: Set<string>; // that were in it, of several: "rank 3"
  children: Map<string, FlameNode>;
}

export interface FlameBox {
  node: FlameNode;
  depth: number;
  start: number;
  ticks: number;
  parent: FlameBox | null;
}
