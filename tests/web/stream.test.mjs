// Events as they come: in pieces of any size.
import assert from "node:assert/strict";
import { test } from "node:test";
import { EventReader, recordsOf } from "../../web/lib/stream.js";

const TEXT = 'event: targets\ndata: {"a": ": "}\n\n: still here\n\nevent: rows\ndata: [1]\n\n';

for (const size of [1, 7, TEXT.length]) {
  test(`events are read from pieces of ${size}`, () => {
    const heard = [];
    const reader = new EventReader((name, data) => heard.push([name, data]));
    for (let i = 0; i < TEXT.length; i += size) reader.read(TEXT.slice(i, i + size));
    assert.deepEqual(heard, [
      ["targets", '{"a": ": "}'],
      ["rows", "[1]"],
    ]);
  });
}

test("results become records", () => {
  const results = { steps: { columns: [{ name: "step" }, { name: "time" }], rows: [[1, 2]] } };
  assert.deepEqual(recordsOf(results), { steps: [{ step: 1, time: 2 }] });
});
