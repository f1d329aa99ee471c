// From samples to boxes.
import { expect, test } from "vitest";
import {
  buildTree,
  collapsed,
  compare,
  fromFolded,
  fromProfile,
  layout,
  ranking,
  select,
  splitInterval,
} from "./flame_tree";
import { classOf } from "./flame_palette";
import { rankIn, rankSet, sandwich, withoutClasses } from "./flame_views";
import type { FoldedStack, Profile } from "../types/api";
import type { FlameStack } from "../types/flame";
import { groupThreads, withNative } from "./stacks";

const PROFILE: Profile = {
  period_ns: 10_000_000,
  samples_taken: 10,
  lost: {},
  threads: [
    { tid: 1, name: "main" },
    { tid: 2, name: "idle" },
  ],
  frames: [
    { kind: "python", func: "main", file: "/a/train.py", lineno: 30, first_line: 20 },
    { kind: "python", func: "step", file: "/a/train.py", lineno: 12, first_line: 10 },
    { kind: "native", func: "memcpy", file: "/lib/libc.so.6", lineno: 0, first_line: 0 },
  ],
  stacks: [[], [0], [0, 1], [0, 1, 2]],
  samples: {
    weight: [4, 2, 1, 3],
    thread: [0, 0, 1, 0],
    stack: [2, 3, 1, 1],
    on_cpu: [true, true, false, false],
    has_gil: [true, false, false, true],
  },
};

const stackOf = (labels: string[], weight: number): FlameStack => ({
  thread: "main",
  rank: "",
  frames: labels.map((label) => ({ label, file: "", kind: "own" as const })),
  running: true,
  gil: true,
  weight,
  start: 0,
});

test("boxes hold their callees and nothing is lost", () => {
  const stacks = select(fromProfile(PROFILE));
  const { boxes, depth, total } = layout(buildTree(stacks));
  expect(total).toBe(9);
  expect(depth).toBe(3);
  const labels = boxes.map(({ node, start, ticks }) => [node.label, start, ticks]);
  expect(labels).toEqual([
    ["all", 0, 9],
    ["main (train.py:20)", 0, 9],
    ["step (train.py:10)", 0, 6],
    ["memcpy (libc.so.6)", 0, 2],
  ]);
  for (const box of boxes.slice(1)) {
    const { start, ticks } = box.parent!;
    expect(box.start >= start && box.start + box.ticks <= start + ticks).toBe(true);
  }
});

test("who is shown can be chosen", () => {
  const all = fromProfile(PROFILE);
  const weights = (shown: string) => select(all, { shown }).map(({ weight }) => weight);
  expect(weights("all")).toEqual([4, 2, 1, 3]);
  expect(weights("active")).toEqual([4, 2, 3]);
  expect(weights("gil")).toEqual([4, 3]);
});

test("threads and lines can be told apart", () => {
  const stacks = fromProfile(PROFILE, { byLine: true });
  const root = buildTree(stacks, { byThread: true });
  expect([...root.children.values()].map(({ label }) => label)).toEqual(["thread 1 main", "thread 2 idle"]);
  expect(stacks[0].frames[1].label).toBe("step (train.py:12)");
});

test("functions are ranked by their own time; recursion counts once", () => {
  const { all, list } = ranking([stackOf(["f", "f", "g"], 3), stackOf(["f"], 1)]);
  expect(all).toBe(4);
  expect(list.map(({ label, self, total }) => [label, self, total])).toEqual([
    ["g", 3, 3],
    ["f", 1, 4],
  ]);
});

test("a comparison says how the shares have changed", () => {
  const now = buildTree([stackOf(["a"], 3), stackOf(["b"], 1)]);
  const then = buildTree([stackOf(["a"], 5), stackOf(["b"], 5)]);
  const changes = compare(now, then);
  expect([...now.children.values()].map((node) => changes.get(node))).toEqual([0.25, -0.25]);
});

test("ten thousand frames below each other are no problem", () => {
  const labels = Array.from({ length: 10_000 }, (_, i) => `f${i}`);
  expect(layout(buildTree([stackOf(labels, 1)])).depth).toBe(10_000);
});

test("continuous samples and recordings look the same", () => {
  const [stack] = fromFolded([
    {
      tid: 1,
      thread_name: "main",
      stack: ["main (train.py:30)", "memcpy (libc.so.6)"],
      on_cpu: true,
      has_gil: true,
      weight: 2,
    },
  ]);
  expect(stack.frames.map(({ label, kind }) => [label, kind])).toEqual([
    ["main (train.py)", "own"],
    ["memcpy (libc.so.6)", "native"],
  ]);
});

test("collapsed stacks have one line for each stack", () => {
  expect(collapsed(fromProfile(PROFILE).slice(0, 1).concat(fromProfile(PROFILE).slice(0, 1)))).toBe(
    "main (train.py:20);step (train.py:10) 8\n",
  );
});

test("native frames are put to the thread they belong to, and rows to their threads", () => {
  const row = (tid: number, name: string, depth: number, func: string) => ({
    tid,
    thread_name: name,
    has_gil: tid === 1,
    state: "running",
    wait_channel: null,
    task: null,
    depth,
    func,
    file: "a.py",
    lineno: depth,
  });
  const rows = [row(1, "MainThread", 0, "step"), row(1, "MainThread", 1, "main"), row(2, "w", 0, "wait")];
  const threads = groupThreads(rows);
  expect(threads.map(({ tid, frames }) => [tid, frames.length])).toEqual([
    [1, 2],
    [2, 1],
  ]);
  const [main] = withNative(threads, { ...PROFILE, samples: { ...PROFILE.samples, stack: [2, 3, 1, 3] } });
  expect(main.frames.map(({ func, isNative }) => [func, isNative])).toEqual([
    ["memcpy", true],
    ["step", false],
    ["main", false],
  ]);
  expect(main.name).toBe("MainThread");
});

const SAMPLED: FoldedStack = {
  tid: 7,
  thread_name: "MainThread",
  stack: ["main (a.py:1)", "step (a.py:2)"],
  classes: ["own", "torch"],
  on_cpu: true,
  has_gil: false,
  weight: 1,
};

test("an interval and the one before it are told apart", () => {
  const row = (recent: boolean, weight: number) => ({
    tid: 7,
    stack: "main (a.py:1);step (a.py:2)",
    on_cpu: true,
    has_gil: false,
    recent,
    weight,
  });
  const { now, before } = splitInterval([row(true, 3), row(false, 5)], [SAMPLED]);
  expect(now).toMatchObject([{ thread_name: "MainThread", weight: 3, classes: ["own", "torch"] }]);
  expect(before).toMatchObject([{ stack: ["main (a.py:1)", "step (a.py:2)"], weight: 5 }]);
});

test("frames are classed by whose code they are", () => {
  expect(classOf("python", "/job/train.py")).toBe("own");
  expect(classOf("python", "/v/lib/python3.11/site-packages/torch/nn/modules/module.py")).toBe("torch");
  expect(classOf("python", "/v/lib/python3.11/site-packages/torchvision/x.py")).toBe("packages");
  expect(classOf("python", "/usr/lib/python3.11/threading.py")).toBe("stdlib");
  expect(classOf("python", "<frozen importlib._bootstrap>")).toBe("stdlib");
  expect(classOf("native", "/v/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so")).toBe("native");
});

test("one function has its callers and its callees, a recursive one once", () => {
  const stacks = [stackOf(["main", "f", "g"], 2), stackOf(["main", "f", "f", "h"], 3), stackOf(["other", "f"], 1)];
  const { callers, callees } = sandwich(stacks, "f");
  const names = (node: typeof callers) => [...node.children.values()].map(({ label, ticks }) => [label, ticks]);
  expect([callers.label, callers.ticks]).toEqual(["f", 6]);
  expect(names(callers)).toEqual([
    ["main", 5],
    ["other", 1],
  ]);
  expect(names(callees)).toEqual([
    ["g", 2],
    ["f", 3],
  ]);
});

test("classes that are hidden give their place to their callees", () => {
  const [stack] = fromProfile(PROFILE).slice(1, 2);
  const [left] = withoutClasses([stack], new Set(["own"]));
  expect(left.frames.map(({ label }) => label)).toEqual(["memcpy (libc.so.6)"]);
});

test("in time only neighbours are one box; the heaviest can come first", () => {
  const at = (labels: string[], start: number, weight: number) => ({ ...stackOf(labels, weight), start });
  const stacks = [at(["b"], 0, 1), at(["a"], 1, 5), at(["b"], 2, 1)];
  const labels = (inTime: boolean, order: "name" | "heavy" | "time") =>
    layout(buildTree(stacks, { inTime }), order).boxes.filter(({ node }) => node.kind !== "group").map(({ node }) => node.label);
  expect(labels(true, "time")).toEqual(["b", "a", "b"]);
  expect(labels(false, "name")).toEqual(["a", "b"]);
  expect(labels(false, "heavy")).toEqual(["a", "b"]);
  expect(layout(buildTree([at(["a"], 0, 1), at(["b"], 1, 5)]), "heavy").boxes[1].node.label).toBe("b");
});

test("boxes know the ranks of a job that were in them", () => {
  const threads = PROFILE.threads.map((thread, rank) => ({ ...thread, rank: 3 * rank }));
  const stacks = fromProfile({ ...PROFILE, threads });
  expect(new Set(stacks.map(({ rank }) => rank))).toEqual(new Set(["rank 0", "rank 3"]));
  const root = buildTree(stacks);
  const [main] = root.children.values();
  const [step] = main.children.values();
  expect(rankSet(main.ranks, root.ranks)).toBe("ranks 0, 3");
  expect(rankSet(step.ranks, root.ranks)).toBe("rank 0");
  expect(rankSet(new Set(["rank 0"]), new Set(["rank 0"]))).toBe("");
  expect([rankIn("rank 12 process 7 x"), rankIn("process 7 rank 1")]).toEqual([12, null]);
});
