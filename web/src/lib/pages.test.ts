// What pages compute: addresses, timelines, trainings, areas.
import { expect, test } from "vitest";
import { heat, heatField, jobsOf, ofJob, ranges, readableStack, slowestOften } from "./cluster";
import { makeHash, parseHash } from "./state";
import { groupsOf, STEPS, sumsOf, toChromeTrace } from "./timeline";
import { byName, leaves, mergeStages, otherPart } from "./training";
import { treemap } from "./treemap";

test("an address holds the page and its parameters, whatever is in them", () => {
  const params = new URLSearchParams({ target: "12", q: "SELECT '#&?=%' -- é\n", empty: "" });
  const { page, params: back } = parseHash(makeHash("query", params));
  expect(page).toBe("query");
  expect(back.get("q")).toBe("SELECT '#&?=%' -- é\n");
  expect(back.has("empty")).toBe(false);
  expect(parseHash("").page).toBe("overview");
});

const span = (name: string, start: number, ms: number) => ({
  rank: "0",
  pid: 7,
  name,
  timestamp_ns: start * 1e6,
  ms,
  tid: 1,
  detail: null,
});
const step = (number: number, start: number, ms: number) => ({
  rank: "0",
  pid: 7,
  step: number,
  timestamp_ns: start * 1e6,
  ms,
  phase: "train",
  data_wait: 0.002,
  forward: 0.003,
  backward: null,
  optimizer: 0.001,
});

test("what is inside of an event lies below it, what follows beside it", () => {
  const [{ tracks }] = groupsOf({ Spans: [span("inner", 1, 2), span("outer", 0, 10), span("next", 10, 5)] });
  expect(tracks[0].rows).toBe(2);
  expect(tracks[0].events.map(({ name, row }) => [name, row])).toEqual([
    ["outer", 0],
    ["inner", 1],
    ["next", 0],
  ]);
});

test("consecutive steps are in one row even where clocks overlap, their phases in order below", () => {
  const [{ name, tracks }] = groupsOf({ [STEPS]: [step(1, 100, 10.4), step(2, 110, 10)] });
  expect(name).toBe("rank 0");
  const [track] = tracks;
  expect(track.rows).toBe(2);
  const row = (wanted: number) => track.events.filter((event) => event.row === wanted);
  expect(row(0).map(({ name: text, start, ms }) => [text, start, ms])).toEqual([
    ["step 1", 100, expect.closeTo(10)],
    ["step 2", 110, 10],
  ]);
  expect(row(1).map(({ name: text }) => text)).toEqual(["data wait", "forward", "optimizer", "data wait", "forward", "optimizer"]);
  expect(row(1)[1].start).toBe(102);
});

test("what is between two moments is summed by name, as far as it is inside", () => {
  const groups = groupsOf({ [STEPS]: [step(1, 100, 10), step(2, 110, 10)], Spans: [span("load", 104, 4)] });
  const sums = sumsOf(groups, 105, 115);
  expect(sums.find(({ name }) => name === "steps")).toMatchObject({ count: 2, ms: 10, longest: 10 });
  expect(sums.find(({ name }) => name === "load")).toMatchObject({ count: 1, ms: 3 });
});

test("a trace for Perfetto is in microseconds with a name for each rank and track", () => {
  const { traceEvents } = toChromeTrace(groupsOf({ Spans: [span("a", 1, 2), span("b", 3, 0)] }));
  expect(traceEvents.map(({ ph, name }) => [ph, name])).toEqual([
    ["M", "process_name"],
    ["M", "thread_name"],
    ["X", "a"],
    ["i", "b"],
  ]);
  expect(traceEvents[2]).toMatchObject({ dur: 2000, ts: 1000 });
});

test("the rest of a step is what its parts leave, and never negative", () => {
  const none = { step: 1, duration: 0, overhead: 0, data_wait: null, forward: 0, backward: 0, optimizer: 0 };
  expect(otherPart({ ...none, duration: 10, data_wait: 1, forward: 2, backward: 3, optimizer: 1 })).toBe(3);
  expect(otherPart({ ...none, duration: 1, forward: 2 })).toBe(0);
});

test("stages of a module become one row; only leaves have areas", () => {
  const row = (module: string, stage: string, total: number) => ({
    module,
    type: "Linear",
    stage,
    calls: 2,
    mean_ms: total / 2,
    total_ms: total,
    peak_mb: null,
  });
  const merged = mergeStages([
    row("net.a", "forward", 4),
    row("net", "forward", 6),
    row("net.a", "backward", 8),
  ]);
  expect(merged.map(({ module, total, stages }) => [module, total, stages])).toEqual([
    ["net.a", 12, { forward: 2, backward: 4 }],
    ["net", 6, { forward: 3 }],
  ]);
  expect(leaves(merged).map(({ module }) => module)).toEqual(["net.a"]);
});

test("values are drawn by step, or by time when one has no step", () => {
  const known = byName([
    { name: "loss", who: "pid 1", step: 2, time: 20, value: 1 },
    { name: "loss", who: "pid 1", step: 1, time: 10, value: 2 },
    { name: "lr", who: "pid 1", step: null, time: 5, value: 3 },
    { name: "acc", who: "rank 10", step: 1, time: 5, value: 3 },
    { name: "acc", who: "rank 2", step: 2, time: 5, value: 4 },
  ]);
  const line = (label: string, values: (number | null)[]) => ({ label, values });
  expect(known.get("loss")).toEqual({ xs: [1, 2], series: [line("loss", [2, 1])], isTime: false });
  expect(known.get("lr")).toEqual({ xs: [5], series: [line("lr", [3])], isTime: true });
  expect(known.get("acc")?.series).toEqual([line("rank 2", [null, 4]), line("rank 10", [3, null])]);
});

test("areas fill the map in proportion", () => {
  const placed = treemap(
    [1, 2, 3, 4].map((value) => ({ value })),
    200,
    100,
  );
  expect(placed.length).toBe(4);
  for (const { entry, w, h } of placed) expect(Math.abs(w * h - entry.value * 2000) < 1e-6).toBeTruthy();
  for (const { x, y, w, h } of placed)
    expect(x >= 0 && y >= 0 && x + w <= 200.001 && y + h <= 100.001).toBeTruthy();
});

test("ranks that follow each other are a range", () => {
  expect(ranges([0, 1, 2, 5, 7, 8])).toBe("0–2, 5, 7–8");
  expect(ranges([])).toBe("");
});

test("stacks of ranks are read by the program's own line, without functions of ours and long paths", () => {
  const stack = `all_reduce (/venv/lib/python3.11/site-packages/torch/distributed/c10d.py:3252)
wrap_collective.<locals>.wrapper (<libprobing>:100)
train_step (/job/train.py:72)
main (/job/train.py:89)`;
  const { place, text } = readableStack(stack);
  expect(place).toBe("train_step (train.py:72)");
  expect(text).toBe("all_reduce (torch/distributed/c10d.py:3252)\ntrain_step (train.py:72)\nmain (train.py:89)");
  expect(readableStack("").place).toBe("no Python code");
});

test("noise is not painted, a difference is, and what is unknown stays so", () => {
  expect(heat([100, 101, 100.5])).toEqual([0, 0, 0]);
  expect(heat([1, 3, null, 2])).toEqual([0, 1, null, 0.5]);
  expect(heat([null])).toEqual([null]);
  expect(heat([])).toEqual([]);
});

test("a field has a row for each rank and a column for each step, whichever are missing", () => {
  const { ranks, steps, cells } = heatField([
    { rank: 0, step: 5, duration: 1 },
    { rank: 0, step: 6, duration: 2 },
    { rank: 3, step: 6, duration: 3 },
  ]);
  expect([ranks, steps]).toEqual([
    [0, 3],
    [5, 6],
  ]);
  expect(cells).toEqual([
    [0, 0.5],
    [null, 1],
  ]);
});

test("ranks of two jobs are never put together, and a job that runs comes first", () => {
  const none = { step: null, duration: null, data_wait: null, waiting: null, cpu: null, rss: null };
  const rank = (job: string | null, state: string) => ({ host: "h", pid: 1, rank: 0, job, state, ...none });
  const step = (job: string) => ({ job, rank: 0, step: 1, duration: 1 });
  const rows = {
    ranks: [rank("old", "ended"), rank("a", "live"), rank("b", "live")],
    stacks: [],
    steps: [step("a"), step("b")],
    slowest: [],
  };
  expect(jobsOf(rows.ranks)).toEqual(["a", "b", "old"]);
  expect(ofJob(rows, "b")).toEqual({ ranks: [rows.ranks[2]], stacks: [], steps: [rows.steps[1]], slowest: [] });
});

test("the slowest rank is counted, the most often first", () => {
  const row = (step: number, rank: number) => ({ step, rank, slowest: 2, middle: 1 });
  expect(slowestOften([row(1, 4), row(2, 0), row(3, 4)])).toEqual([
    { rank: 4, steps: 2 },
    { rank: 0, steps: 1 },
  ]);
});
