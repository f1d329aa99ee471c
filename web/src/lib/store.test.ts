// Rows of the store, put together.
import { expect, test } from "vitest";
import { rowsOfRanks } from "./store";

test("what a rank has sent to several tables becomes one row", () => {
  const a = { host: "a", pid: 7, rank: 1, job: "j" };
  const b = { host: "b", pid: 7, rank: 0, job: "j" }; // the same pid on another host
  const { ranks, steps } = rowsOfRanks({
    steps: [{ ...a, step: 300, duration: 0.2, data_wait: 0.1, steps: 10 }],
    waits: [{ ...a, waited: 1 }],
    cpu: [{ ...b, cpu: 50 }],
    memory: [{ ...a, rss: 1024 }],
    heat: [
      { job: "j", rank: 1, step: 300, duration: 0.2 },
      { job: "j", rank: 0, step: 300, duration: 0.3 },
      { job: "j", rank: 0, step: 100, duration: 0.3 },
      { job: "young", rank: 0, step: 2, duration: 0.3 }, // is not old because it is at its beginning
    ],
  });
  expect(ranks).toMatchObject([
    { host: "b", rank: 0, cpu: 50, step: null },
    { host: "a", rank: 1, step: 300, waiting: 0.1, rss: 1024 },
  ]);
  expect(steps.map(({ rank, step }) => [rank, step])).toEqual([
    [0, 300],
    [0, 2],
    [1, 300],
  ]);
});
