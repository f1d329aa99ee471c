// Elements, controls and pages, and how they ask.
import type { Place } from "../parts/states";
import type { Printed, Rows, StreamEvents } from "./api";

export type OneChild = Node | string | null | undefined | false;

export type Child = OneChild | readonly Child[];

export type Listeners = {
  [E in keyof HTMLElementEventMap as `on${E}`]?: (event: HTMLElementEventMap[E]) => void;
};

export interface Attributes extends Listeners {
  style?: Record<string, string>;
  [name: string]: string | boolean | null | undefined | Record<string, string> | Listeners[keyof Listeners];
}

declare global {
  interface WindowEventMap {
    themechange: Event;
  }
}

// Of a choice: its value, and the text that is shown.
export type Option = readonly [value: string, text: string];

export interface Check {
  node: HTMLElement;
  on: () => boolean;
}

export interface Choice {
  node: HTMLSelectElement;
  value: () => string;
}

export interface Tabs {
  node: HTMLElement;
  value: () => string;
  select: (value: string) => void;
}

// A method, so that the target of one that needs it may be a number.
export interface PageModule {
  mount(context: PageContext): void;
}

export interface Route {
  name: string;
  title: string;
  icon: string;
  load: () => Promise<PageModule>;
  needsTarget?: boolean;
  needsProbe?: boolean;
  seconds?: number; // pages about a time: how much of it they show at first
  past?: boolean; // shows what is now, and a time that is over when the address names one
}

// A pid, or null for all targets; never null where the route needs one.
export interface PageContext<T = number | null> {
  root: HTMLElement;
  params: URLSearchParams;
  target: T;
  job: string | null; // only its processes, where no target is chosen
  range: Range;
  signal: AbortSignal;
  live(task: () => Promise<unknown>, every: number, place?: Place): () => void;
}

// The last seconds up to now, or from one moment to another, in ms since the epoch.
export type Range = { seconds: number } | { from: number; to: number };

export interface Scope {
  target: number | null;
  job: string | null;
}

export type Choosing = (scope: Scope) => void;

export interface Query {
  target?: number | null;
  store?: boolean; // the rows of all hosts that send theirs there
  signal?: AbortSignal;
}

// `failed` hears of a success with null.
export interface PollOptions {
  every: number; // ms
  signal: AbortSignal;
  failed?: Hear<Failure | null>;
}

export interface FollowOptions {
  signal: AbortSignal;
  hears: { [E in keyof StreamEvents]?: Hear<StreamEvents[E]> };
  failed?: Hear<Failure | null>;
  parse?: typeof JSON.parse;
}

export interface FollowQueries extends Query {
  seconds: number;
  signal: AbortSignal;
  heard: Hear<Record<string, Rows>>;
  failed?: Hear<Failure | null>;
}

export type Changes = Record<string, string | number | boolean | null | undefined>;

export interface RunOptions {
  isWhole: boolean;
  timeout: number;
  printed: Hear<Printed>;
  signal: AbortSignal;
}

export type Hear<T> = (value: T) => void;

export type HearEvent = (name: string, data: string) => void;

// Whatever failed: of the server, of the browser or of ours.
export interface Failure {
  name?: string;
  code?: string;
  message: string;
  hint?: string;
}

// The last `count` characters give way to one of the candidates.
export interface Completion {
  count: number;
  candidates: string[];
}
