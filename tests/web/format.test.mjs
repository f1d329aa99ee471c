// Numbers, times and values as they are written and drawn.
import assert from "node:assert/strict";
import { test } from "node:test";
import { chartable, compareCells, toLines } from "../../web/lib/cells.js";
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
} from "../../web/lib/format.js";
import { parseJson } from "../../web/lib/api.js";

test("sizes have units and three digits that count", () => {
  assert.equal(bytes(0), "0 B");
  assert.equal(bytes(1023), "1023 B");
  assert.equal(bytes(1024), "1 KB");
  assert.equal(bytes(1536 * 1024), "1.5 MB");
  assert.equal(bytes(123.4 * 2 ** 30), "123 GB");
  assert.equal(bytes(null), "–");
});

test("durations use the unit that fits", () => {
  assert.equal(seconds(0), "0 s");
  assert.equal(seconds(3.2e-9), "3.2 ns");
  assert.equal(seconds(0.0000456), "45.6 µs");
  assert.equal(seconds(0.01234), "12.3 ms");
  assert.equal(seconds(61.26), "61.3 s");
  assert.equal(seconds(200), "3 min 20 s");
  assert.equal(span(3600 * 2 + 60 * 5 + 9), "2 h 5 min");
  assert.equal(span(86400 * 4), "4 d");
  assert.equal(span(0.4), "0 s");
});

test("numbers keep what counts and integers all digits", () => {
  assert.equal(number(12345678), "12 345 678");
  assert.equal(number(0.1 + 0.2), "0.3");
  assert.equal(number(1.5e-7), "1.500e-7");
  assert.equal(number(NaN), "–");
  assert.equal(integer(2n ** 63n - 1n), "9 223 372 036 854 775 807");
  assert.equal(count(1, "row"), "1 row");
  assert.equal(count(2000, "row"), "2 000 rows");
  assert.equal(percent(99.96), "100 %");
  assert.equal(withUnit(2048, "bytes/s"), "2 KB/s");
  assert.equal(withUnit(250, "ms"), "250 ms");
});

test("times of the server are read with their fraction and their zone", () => {
  assert.equal(parseTime("2026-11-16 04:30:13+00"), Date.UTC(2026, 10, 16, 4, 30, 13));
  assert.equal(parseTime("2026-11-16 04:30:13.25+00"), Date.UTC(2026, 10, 16, 4, 30, 13, 250));
  assert.equal(parseTime("2026-11-16 04:30:13"), Date.UTC(2026, 10, 16, 4, 30, 13));
  assert.equal(parseTime("2026-11-16 06:30:13+02"), Date.UTC(2026, 10, 16, 4, 30, 13));
  assert.ok(Number.isNaN(parseTime("infinity")));
  assert.ok(Number.isNaN(parseTime(null)));
});

test("files are cut to what tells them apart", () => {
  assert.equal(shortFile("/x/lib/python3.11/json/decoder.py"), "json/decoder.py");
  assert.equal(
    shortFile("/x/lib/python3.11/site-packages/torch/nn/modules/linear.py"),
    "torch/nn/modules/linear.py",
  );
  assert.equal(shortFile("/work/train.py"), "train.py");
  assert.equal(shortFile("<string>"), "<string>");
});

test("integers that a double cannot hold stay exact", () => {
  const { rows } = parseJson(
    '{"rows": [[9223372036854775807, 1234567890123456, 1.5e300, "99999999999999999999"]]}',
  );
  assert.deepEqual(rows, [[9223372036854775807n, 1234567890123456, 1.5e300, "99999999999999999999"]]);
});

test("sorting puts numbers by size and NULL last", () => {
  assert.deepEqual([10, null, 9n, 2].sort(compareCells), [2, 9n, 10, null]);
  assert.deepEqual(["b", "a", null].sort(compareCells), ["a", "b", null]);
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
  assert.equal(how.kind, "lines");
  assert.deepEqual(
    how.ys.map(({ name }) => name),
    ["util"],
  );
  assert.deepEqual(toLines(rows, how, how.ys), {
    xs: [1, 2],
    series: [
      { label: "0", values: [5, null] },
      { label: "1", values: [6, null] },
    ],
  });
});

test("text and numbers make bars; text alone makes nothing", () => {
  const name = { name: "name", type: "VARCHAR" };
  assert.equal(chartable([name, { name: "n", type: "BIGINT" }], [["a", 1]]).kind, "bars");
  assert.equal(chartable([name], [["a"]]), null);
  assert.equal(chartable([name, { name: "n", type: "BIGINT" }], []), null);
});
