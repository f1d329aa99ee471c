// Stalls, parts of steps at their times, blocks of GPU memory.
import { expect, test } from "vitest";
import { piecesOf } from "./gpu_blocks";
import { byLine, foldedOf, oneStallSql, partsOf, placeOf } from "./stalls";
import { groupsOf, partTimes, STEPS } from "./timeline";
import type { BlockRow } from "../types/gpu_blocks";
import type { StallRow } from "../types/stalls";
import type { CallRow, PhaseRow } from "../types/training";

const stall = (more: Partial<StallRow>): StallRow => ({
  timestamp_ns: 1_700_000_000_000_000_000n,
  pid: 1,
  rank: null,
  kind: "event_loop",
  duration: 0.2,
  tid: 7,
  thread_name: "MainThread",
  func: "handle",
  file: "/job/app.py",
  lineno: 12,
  why: "slept",
  cpu_wait: 0,
  waiting_threads: 0,
  stack: null,
  before: null,
  stacks: null,
  ended: true,
  left_out: 0,
  ...more,
});

test("lines are sorted by all the time that they took", () => {
  const rows = [stall({}), stall({ lineno: 30, duration: 0.3 }), stall({ kind: "gil" })];
  const [first, second] = byLine(rows);
  expect([first.place, first.count, first.kinds]).toEqual(["handle (app.py:12)", 2, ["event_loop", "gil"]]);
  expect(second.longest.duration).toBe(0.3);
  expect(placeOf(stall({ func: null }))).toBe("no stack could be read");
});

test("stacks that are no list of parts are none", () => {
  for (const stacks of [null, "", "{}", "[1, null]", '[{"at": "x", "seconds": 1, "stack": "a"}]', "[{"])
    expect(partsOf(stall({ stacks }))).toEqual([]);
  expect(() => oneStallSql("1; DROP")).toThrow();
});

test("the flame graph of a stall weighs what was during it, in milliseconds", () => {
  const parts = [
    { at: -1, seconds: 0.9, stack: "main;before" },
    { at: -0.05, seconds: 0.1, stack: "main;across" },
    { at: 0.05, seconds: 0.15, stack: "main;handle (app.py:12)" },
  ];
  const folded = foldedOf(stall({ stacks: JSON.stringify(parts) }));
  expect(folded.map(({ stack, weight }) => [stack.at(-1), weight])).toEqual([
    ["across", 50],
    ["handle (app.py:12)", 150],
  ]);
  const moment = foldedOf(stall({ duration: 0, stacks: JSON.stringify([parts[0]]) }));
  expect(moment.map(({ weight }) => weight)).toEqual([900]);
});

const owner = { rank: "0", pid: 1 };
const call = (stage: string, at: number, ms: number, step = 5): CallRow => ({
  ...owner,
  timestamp_ns: (1000 + at) * 1e6,
  ms,
  name: stage,
  tid: null,
  detail: "",
  step,
  stage,
  phase: "train",
});
const step = (number: number, at: number): PhaseRow => ({
  ...owner,
  timestamp_ns: (1000 + at) * 1e6,
  step: number,
  ms: 100,
  phase: "train",
  data_wait: 0.02,
  forward: 0.03,
  backward: 0.02,
  optimizer: 0.01,
});

test("parts of a step that was traced are at their times, the others in order", () => {
  const Modules = [call("backward", 60, 20), call("forward", 30, 10), call("forward", 31, 4), call("step", 90, 8)];
  Modules.push(call("forward", 40, 5));
  const [{ tracks }] = groupsOf({ [STEPS]: [step(5, 0), step(6, 100)], Modules });
  const parts = tracks[0].events.filter(({ row }) => row === 1).map(({ name, start, ms }) => [name, start, ms]);
  expect(parts).toEqual([
    ["data wait", 1000, 20],
    ["forward", 1030, 15],
    ["backward", 1060, 20],
    ["optimizer", 1090, 8],
    ["data wait", 1100, 20],
    ["forward", 1120, 30],
    ["backward", 1150, 20],
    ["optimizer", 1170, 10],
  ]);
  const said = tracks[0].events.filter(({ row }) => row === 1).map(({ detail }) => detail.includes("in order"));
  expect(said).toEqual([false, false, false, false, true, true, true, true]);
});

test("passes of several micro-batches are as many parts", () => {
  const calls = [call("forward", 0, 10), call("backward", 10, 10), call("forward", 20, 10), call("backward", 30, 10)];
  const [parts] = [...partTimes(calls).values()];
  expect(parts.map(({ part }) => part)).toEqual(["forward", "backward", "forward", "backward"]);
});

test("a step of which only some calls are known is drawn in order", () => {
  const [{ tracks }] = groupsOf({ [STEPS]: [step(5, 0)], Modules: [call("forward", 30, 10)] });
  expect(tracks[0].events.filter(({ row }) => row === 1).length).toBe(4);
});

test("blocks fill the rows of their map, and go on in the next", () => {
  const block = (bytes: number): BlockRow => ({
    device: 0,
    segment: 1,
    bytes,
    state: "free",
    func: null,
    file: null,
    lineno: null,
    age_s: null,
  });
  const pieces = piecesOf([block(60), block(100), block(40)], 2);
  expect(pieces.map(({ row, x, w }) => [row, x, w])).toEqual([
    [0, 0, 0.6],
    [0, 0.6, 0.4],
    [1, 0, 0.6],
    [1, 0.6, 0.4],
  ]);
  expect(piecesOf([], 3)).toEqual([]);
});
