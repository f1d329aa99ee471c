// Events as they come: in pieces of any size.
import { expect, test } from "vitest";
import { EventReader, recordsOf } from "./stream";

const TEXT = 'event: targets\ndata: {"a": ": "}\n\n: still here\n\nevent: rows\ndata: [1]\n\n';

for (const size of [1, 7, TEXT.length]) {
  test(`events are read from pieces of ${size}`, () => {
    const heard: string[][] = [];
    const reader = new EventReader((name, data) => heard.push([name, data]));
    for (let i = 0; i < TEXT.length; i += size) reader.read(TEXT.slice(i, i + size));
    expect(heard).toEqual([
      ["targets", '{"a": ": "}'],
      ["rows", "[1]"],
    ]);
  });
}

test("results become records", () => {
  const results = {
    steps: { columns: ["step", "time"].map((name) => ({ name, type: "BIGINT" })), rows: [[1, 2]] },
  };
  expect(recordsOf(results)).toEqual({ steps: [{ step: 1, time: 2 }] });
});
