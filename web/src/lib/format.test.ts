// Numbers, times and values as they are written and drawn.
import { expect, test } from "vitest";
import { chartable, compareCells, toLines } from "./cells";
import {
  bytes,
  count,
  integer,
  number,
  parseTime,
  percent,
  seconds,
  shortFile,
  span,
  withUnit,
} from "./format";
import { parseJson } from "./api";

test("sizes have units and three digits that count", () => {
  expect(bytes(0)).toBe("0 B");
  expect(bytes(1023)).toBe("1023 B");
  expect(bytes(1024)).toBe("1 KB");
  expect(bytes(1536 * 1024)).toBe("1.5 MB");
  expect(bytes(123.4 * 2 ** 30)).toBe("123 GB");
  expect(bytes(null)).toBe("–");
});

test("durations use the unit that fits", () => {
  expect(seconds(0)).toBe("0 s");
  expect(seconds(3.2e-9)).toBe("3.2 ns");
  expect(seconds(0.0000456)).toBe("45.6 µs");
  expect(seconds(0.01234)).toBe("12.3 ms");
  expect(seconds(61.26)).toBe("61.3 s");
  expect(seconds(200)).toBe("3 min 20 s");
  expect(span(3600 * 2 + 60 * 5 + 9)).toBe("2 h 5 min");
  expect(span(86400 * 4)).toBe("4 d");
  expect(span(0.4)).toBe("0 s");
});

test("numbers keep what counts and integers all digits", () => {
  expect(number(12345678)).toBe("12 345 678");
  expect(number(0.1 + 0.2)).toBe("0.3");
  expect(number(1.5e-7)).toBe("1.500e-7");
  expect(number(NaN)).toBe("–");
  expect(integer(2n ** 63n - 1n)).toBe("9 223 372 036 854 775 807");
  expect(count(1, "row")).toBe("1 row");
  expect(count(2000, "row")).toBe("2 000 rows");
  expect([99.96, 45.61, 1.99, 0.998, 0.0412, 0.001].map(percent)).toEqual(["100 %", "45.6 %", "2 %", "1 %", "0.04 %", "0 %"]);
  expect(withUnit(2048, "bytes/s")).toBe("2 KB/s");
  expect(withUnit(250, "ms")).toBe("250 ms");
});

test("times of the server are read with their fraction and their zone", () => {
  expect(parseTime("2026-11-16 04:30:13+00")).toBe(Date.UTC(2026, 10, 16, 4, 30, 13));
  expect(parseTime("2026-11-16 04:30:13.25+00")).toBe(Date.UTC(2026, 10, 16, 4, 30, 13, 250));
  expect(parseTime("2026-11-16 04:30:13")).toBe(Date.UTC(2026, 10, 16, 4, 30, 13));
  expect(parseTime("2026-11-16 06:30:13+02")).toBe(Date.UTC(2026, 10, 16, 4, 30, 13));
  expect(Number.isNaN(parseTime("infinity"))).toBeTruthy();
  expect(Number.isNaN(parseTime(null))).toBeTruthy();
});

test("files are cut to what tells them apart", () => {
  expect(shortFile("/x/lib/python3.11/json/decoder.py")).toBe("json/decoder.py");
  expect(shortFile("/x/lib/python3.11/site-packages/torch/nn/modules/linear.py")).toBe(
    "torch/nn/modules/linear.py",
  );
  expect(shortFile("/work/train.py")).toBe("train.py");
  expect(shortFile("<string>")).toBe("<string>");
});

test("integers that a double cannot hold stay exact", () => {
  const { rows } = parseJson(
    '{"rows": [[9223372036854775807, 1234567890123456, 1.5e300, "99999999999999999999"]]}',
  );
  expect(rows).toEqual([[9223372036854775807n, 1234567890123456, 1.5e300, "99999999999999999999"]]);
});

test("sorting puts numbers by size and NULL last", () => {
  expect([10, null, 9n, 2].sort(compareCells)).toEqual([2, 9n, 10, null]);
  expect(["b", "a", null].sort(compareCells)).toEqual(["a", "b", null]);
});

const TIME = { name: "timestamp", type: "TIMESTAMPTZ" };

test("a time and numbers make lines, a text splits them", () => {
  const columns = [
    TIME,
    { name: "device", type: "VARCHAR" },
    { name: "util", type: "DOUBLE" },
    { name: "pid", type: "BIGINT" },
  ];
  const rows = [
    ["1970-01-01 00:00:01+00", "0", 5, 1],
    ["1970-01-01 00:00:01+00", "1", 6, 1],
    ["1970-01-01 00:00:02+00", "0", null, 1],
  ];
  const how = chartable(columns, rows);
  if (how?.kind !== "lines") throw new Error("lines are expected");
  expect(how.ys.map(({ name }) => name)).toEqual(["util"]);
  expect(toLines(rows, how, how.ys)).toEqual({
    xs: [1, 2],
    series: [
      { label: "0", values: [5, null] },
      { label: "1", values: [6, null] },
    ],
  });
});

test("text and numbers make bars; text alone makes nothing", () => {
  const name = { name: "name", type: "VARCHAR" };
  expect(chartable([name, { name: "n", type: "BIGINT" }], [["a", 1]])?.kind).toBe("bars");
  expect(chartable([name], [["a"]])).toBe(null);
  expect(chartable([name, { name: "n", type: "BIGINT" }], [])).toBe(null);
});
