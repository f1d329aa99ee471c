// What pages compute: addresses, timelines, trainings, areas.
import assert from "node:assert/strict";
import { test } from "node:test";
import { heat, heatField, ranges } from "../../web/lib/cluster.js";
import { makeHash, parseHash } from "../../web/lib/state.js";
import { arrange, toChromeTrace } from "../../web/lib/timeline.js";
import { byName, leaves, mergeStages, otherPart } from "../../web/lib/training.js";
import { treemap } from "../../web/lib/treemap.js";

test("an address holds the page and its parameters, whatever is in them", () => {
  const params = new URLSearchParams({ target: "12", q: "SELECT '#&?=%' -- é\n", empty: "" });
  const { page, params: back } = parseHash(makeHash("query", params));
  assert.equal(page, "query");
  assert.equal(back.get("q"), "SELECT '#&?=%' -- é\n");
  assert.equal(back.has("empty"), false);
  assert.equal(parseHash("").page, "overview");
});

const event = (name, start, ms, lane = "Spans") => ({ lane, name, start, ms, detail: "" });

test("what is inside of an event lies below it, what follows beside it", () => {
  const [lane] = arrange([event("inner", 1, 2), event("outer", 0, 10), event("next", 10, 5)]);
  assert.equal(lane.rows, 2);
  assert.deepEqual(
    lane.events.map(({ event: { name }, row }) => [name, row]),
    [
      ["outer", 0],
      ["inner", 1],
      ["next", 0],
    ],
  );
});

test("a trace for Perfetto is in microseconds with a name for each lane", () => {
  const { traceEvents } = toChromeTrace([event("a", 1, 2, "Steps"), event("b", 3, 0)]);
  assert.deepEqual(
    traceEvents.map(({ ph, tid }) => [ph, tid]),
    [
      ["M", 1],
      ["M", 2],
      ["X", 1],
      ["i", 2],
    ],
  );
  assert.equal(traceEvents[2].dur, 2000);
  assert.equal(traceEvents[3].ts, 3000);
});

test("the rest of a step is what its parts leave, and never negative", () => {
  assert.equal(otherPart({ duration: 10, data_wait: 1, forward: 2, backward: 3, optimizer: 1 }), 3);
  assert.equal(otherPart({ duration: 1, forward: 2, data_wait: null }), 0);
});

test("stages of a module become one row; only leaves have areas", () => {
  const row = (module, stage, total) => ({
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
  assert.deepEqual(
    merged.map(({ module, total, stages }) => [module, total, stages]),
    [
      ["net.a", 12, { forward: 2, backward: 4 }],
      ["net", 6, { forward: 3 }],
    ],
  );
  assert.deepEqual(
    leaves(merged).map(({ module }) => module),
    ["net.a"],
  );
});

test("values are drawn by step, or by time when one has no step", () => {
  const known = byName([
    { name: "loss", who: "pid 1", step: 2, time: 20, value: 1 },
    { name: "loss", who: "pid 1", step: 1, time: 10, value: 2 },
    { name: "lr", who: "pid 1", step: null, time: 5, value: 3 },
    { name: "acc", who: "rank 10", step: 1, time: 5, value: 3 },
    { name: "acc", who: "rank 2", step: 2, time: 5, value: 4 },
  ]);
  const line = (label, values) => ({ label, values });
  assert.deepEqual(known.get("loss"), { xs: [1, 2], series: [line("loss", [2, 1])], isTime: false });
  assert.deepEqual(known.get("lr"), { xs: [5], series: [line("lr", [3])], isTime: true });
  assert.deepEqual(known.get("acc").series, [line("rank 2", [null, 4]), line("rank 10", [3, null])]);
});

test("areas fill the map in proportion", () => {
  const placed = treemap(
    [1, 2, 3, 4].map((value) => ({ value })),
    200,
    100,
  );
  assert.equal(placed.length, 4);
  for (const { entry, w, h } of placed) assert.ok(Math.abs(w * h - entry.value * 2000) < 1e-6);
  for (const { x, y, w, h } of placed) assert.ok(x >= 0 && y >= 0 && x + w <= 200.001 && y + h <= 100.001);
});

test("ranks that follow each other are a range", () => {
  assert.equal(ranges([0, 1, 2, 5, 7, 8]), "0–2, 5, 7–8");
  assert.equal(ranges([]), "");
});

test("noise is not painted, a difference is, and what is unknown stays so", () => {
  assert.deepEqual(heat([100, 101, 100.5]), [0, 0, 0]);
  assert.deepEqual(heat([1, 3, null, 2]), [0, 1, null, 0.5]);
  assert.deepEqual(heat([null]), [null]);
  assert.deepEqual(heat([]), []);
});

test("a field has a row for each rank and a column for each step, whichever are missing", () => {
  const { ranks, steps, cells } = heatField([
    { rank: 0, step: 5, duration: 1 },
    { rank: 0, step: 6, duration: 2 },
    { rank: 3, step: 6, duration: 3 },
  ]);
  assert.deepEqual([ranks, steps], [[0, 3], [5, 6]]);
  assert.deepEqual(cells, [[0, 0.5], [null, 1]]);
});
