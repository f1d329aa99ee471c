// Numbers before they are drawn, and the time that they are of.
import { expect, test } from "vitest";
import { axisTexts, bandOf, csvOf, overlay, smooth } from "./chart_data";
import { answerOf, mergeAlike, verdict } from "./findings";
import { rateNow, ratesOf } from "./jobs";
import { before, bounds, rangeOf, rangeParams, rangeText, within } from "./range";
import type { Finding } from "../types/api";

test("marks of an axis have one unit and the digits that tell them apart", () => {
  expect(axisTexts([0, 0.25, 0.5, 0.75, 1], "s")).toEqual(["0", "0.25 s", "0.50 s", "0.75 s", "1.00 s"]);
  expect(axisTexts([0, 0.01, 0.02], "s")).toEqual(["0", "10 ms", "20 ms"]);
  expect(axisTexts([0, 1024 ** 2 * 128, 1024 ** 2 * 256], "bytes")).toEqual(["0", "128 MB", "256 MB"]);
  expect(axisTexts([0.012, 0.0125, 0.013], "")).toEqual(["0.0120", "0.0125", "0.0130"]);
  expect(axisTexts([0, 5e6, 1e7], "")).toEqual(["0", "5e6", "1e7"]);
  expect(axisTexts([0, 50, 100], "%")).toEqual(["0", "50 %", "100 %"]);
});

test("smoothing does not start at zero, and gaps stay gaps", () => {
  expect(smooth([2, 2, null, 2], 0.9)).toEqual([2, 2, null, expect.closeTo(2)]);
  expect(smooth([0, 10], 0.5)).toEqual([0, expect.closeTo(6.667, 2)]);
  expect(smooth([1, 5], 0)).toEqual([1, 5]);
});

test("many ranks become a band, runs are laid beside each other, and all of it goes into a table", () => {
  const line = (label: string, values: (number | null)[]) => ({ label, values });
  const { low, middle, high } = bandOf([line("a", [1, 5]), line("b", [2, null]), line("c", [3, 7])]);
  expect([low.values, middle.values, high.values]).toEqual([
    [3, 7],
    [2, 7],
    [1, 5],
  ]);
  const { xs, series } = overlay([1, 2], [line("loss", [5, 4])], { xs: [0, 1], series: [line("loss", [9, 8])] }, 1, "before");
  expect(xs).toEqual([1, 2]);
  expect(series).toMatchObject([
    { label: "loss", values: [5, 4], dashed: false },
    { label: "loss before", values: [9, 8], dashed: true },
  ]);
  expect(csvOf("step", [1, 2], [line('a "b", c', [5, null])])).toBe('step,"a ""b"", c"\n1,5\n2,\n');
});

test("a time range is the last minutes or stands still, and a link says which", () => {
  expect(rangeOf(new URLSearchParams("minutes=60"), 5)).toEqual({ seconds: 3600 });
  expect(rangeOf(new URLSearchParams("seconds=10"), 5)).toEqual({ seconds: 10 });
  expect(rangeOf(new URLSearchParams("minutes=1e99"), 5)).toEqual({ seconds: 5 });
  const frozen = rangeOf(new URLSearchParams("from=60000&to=120000&minutes=5"), 5);
  expect(frozen).toEqual({ from: 60000, to: 120000 });
  expect(within(frozen)).toBe(
    "timestamp >= TIMESTAMPTZ '1970-01-01 00:01:00.000+00' AND timestamp <= TIMESTAMPTZ '1970-01-01 00:02:00.000+00'",
  );
  expect(within({ seconds: 5 }, "it's")).toBe("timestamp > now() - interval '5 seconds' AND job = 'it''s'");
  expect(rangeParams({ seconds: 120 })).toMatchObject({ minutes: "2", seconds: null, from: null });
  expect(rangeParams(bounds({ seconds: 60 }, 100_000))).toMatchObject({ from: "40000", to: "100000", minutes: null });
  expect(before(frozen)).toEqual({ from: 0, to: 60000 });
  expect(rangeText({ seconds: 300 })).toBe("Last 5 minutes");
});

const finding = (more: Partial<Finding>): Finding => ({
  class: "hang",
  severity: "error",
  ranks: [],
  pids: [7],
  job: null,
  evidence: "",
  next: "",
  ...more,
});

test("a job is what its worst finding says, and the finding leads to the page that answers", () => {
  expect(verdict([], 2)).toEqual({ kind: "good", text: "Healthy" });
  expect(verdict(null, 2).text).toBe("Checking");
  expect(verdict([], 0).text).toBe("Ended");
  expect(verdict([finding({ class: "collective_hang" })], 1)).toEqual({ kind: "bad", text: "Hung" });
  expect(verdict([finding({ class: "nan" })], 1).text).toBe("In trouble");
  expect(verdict([finding({ severity: "warning" })], 1).kind).toBe("warn");
  expect(answerOf(finding({}))).toEqual({ page: "stacks", params: { target: 7 } });
  expect(answerOf(finding({ class: "straggler", job: "night" }))).toEqual({
    page: "cluster",
    params: { metric: "duration", job: "night" },
  });
  const both = mergeAlike([finding({ ranks: [1], pids: [8] }), finding({ ranks: [0] })]);
  expect(both).toMatchObject([{ ranks: [0, 1], pids: [8, 7] }]);
});

test("steps a second are those of one rank, and stand at 0 when they stop", () => {
  const job = { members: [{ pid: 1 }, { pid: 2 }] } as never;
  const rows = [10, 12, 14].map((bin) => ({ pid: 1, bin, traced: true, rate: 3 }));
  const rates = ratesOf(job, [...rows, { pid: 2, bin: 14, traced: true, rate: 3 }], 22_000);
  expect(rates).toEqual([3, 3, 3, 0, 0, 0]);
  expect(rateNow(rates)).toBeCloseTo(1.2);
});
