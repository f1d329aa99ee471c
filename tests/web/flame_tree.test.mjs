// From samples to boxes.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  buildTree,
  collapsed,
  compare,
  fromFolded,
  fromProfile,
  layout,
  ranking,
  select,
} from "../../web/lib/flame_tree.js";
import { groupThreads, withNative } from "../../web/lib/stacks.js";

const PROFILE = {
  threads: [
    { pid: 1, tid: 1, name: "main" },
    { pid: 1, tid: 2, name: "idle" },
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

test("boxes hold their callees and nothing is lost", () => {
  const stacks = select(fromProfile(PROFILE));
  const { boxes, depth, total } = layout(buildTree(stacks));
  assert.equal(total, 9);
  assert.equal(depth, 3);
  const labels = boxes.map(({ node, start, ticks }) => [node.label, start, ticks]);
  assert.deepEqual(labels, [
    ["all", 0, 9],
    ["main (train.py:20)", 0, 9],
    ["step (train.py:10)", 0, 6],
    ["memcpy (libc.so.6)", 0, 2],
  ]);
  for (const box of boxes.slice(1)) {
    assert.ok(box.start >= box.parent.start && box.start + box.ticks <= box.parent.start + box.parent.ticks);
  }
});

test("who is shown can be chosen", () => {
  const all = fromProfile(PROFILE);
  const weights = (shown) => select(all, { shown }).map(({ weight }) => weight);
  assert.deepEqual(weights("all"), [4, 2, 1, 3]);
  assert.deepEqual(weights("active"), [4, 2, 3]);
  assert.deepEqual(weights("gil"), [4, 3]);
});

test("threads and lines can be told apart", () => {
  const stacks = fromProfile(PROFILE, { byLine: true });
  const root = buildTree(stacks, { byThread: true });
  assert.deepEqual(
    [...root.children.values()].map(({ label }) => label),
    ["thread 1 main", "thread 2 idle"],
  );
  assert.equal(stacks[0].frames[1].label, "step (train.py:12)");
});

test("functions are ranked by their own time; recursion counts once", () => {
  const frame = (label) => ({ label, file: "", kind: "python" });
  const { all, list } = ranking([
    { frames: [frame("f"), frame("f"), frame("g")], weight: 3 },
    { frames: [frame("f")], weight: 1 },
  ]);
  assert.equal(all, 4);
  assert.deepEqual(
    list.map(({ label, self, total }) => [label, self, total]),
    [
      ["g", 3, 3],
      ["f", 1, 4],
    ],
  );
});

test("a comparison says how the shares have changed", () => {
  const stack = (label, weight) => ({
    frames: [{ label, file: "", kind: "python" }],
    running: true,
    gil: true,
    weight,
  });
  const now = buildTree([stack("a", 3), stack("b", 1)]);
  const then = buildTree([stack("a", 5), stack("b", 5)]);
  const changes = compare(now, then);
  assert.deepEqual(
    [...now.children.values()].map((node) => changes.get(node)),
    [0.25, -0.25],
  );
});

test("ten thousand frames below each other are no problem", () => {
  const frames = Array.from({ length: 10_000 }, (_, i) => ({ label: `f${i}`, file: "", kind: "python" }));
  assert.equal(layout(buildTree([{ frames, running: true, gil: true, weight: 1 }])).depth, 10_000);
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
  assert.deepEqual(
    stack.frames.map(({ label, kind }) => [label, kind]),
    [
      ["main (train.py)", "python"],
      ["memcpy (libc.so.6)", "native"],
    ],
  );
});

test("collapsed stacks have one line for each stack", () => {
  assert.equal(
    collapsed(fromProfile(PROFILE).slice(0, 1).concat(fromProfile(PROFILE).slice(0, 1))),
    "main (train.py:20);step (train.py:10) 8\n",
  );
});

test("native frames are put to the thread they belong to, and rows to their threads", () => {
  const rows = [
    {
      tid: 1,
      thread_name: "MainThread",
      has_gil: true,
      state: "running",
      depth: 0,
      func: "step",
      file: "a.py",
      lineno: 1,
    },
    {
      tid: 1,
      thread_name: "MainThread",
      has_gil: true,
      state: "running",
      depth: 1,
      func: "main",
      file: "a.py",
      lineno: 2,
    },
    {
      tid: 2,
      thread_name: "w",
      has_gil: false,
      state: "sleeping",
      depth: 0,
      func: "wait",
      file: "b.py",
      lineno: 3,
    },
  ];
  const threads = groupThreads(rows);
  assert.deepEqual(
    threads.map(({ tid, frames }) => [tid, frames.length]),
    [
      [1, 2],
      [2, 1],
    ],
  );
  const [main] = withNative(threads, { ...PROFILE, samples: { ...PROFILE.samples, stack: [2, 3, 1, 3] } });
  assert.deepEqual(
    main.frames.map(({ func, isNative }) => [func, isNative]),
    [
      ["memcpy", true],
      ["step", false],
      ["main", false],
    ],
  );
  assert.equal(main.name, "MainThread");
});
