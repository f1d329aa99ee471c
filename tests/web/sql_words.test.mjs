// What the SQL editor colours and completes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { completions, tablesIn, tokens } from "../../web/lib/sql_words.js";

const column = (name) => ({ name, type: "DOUBLE", doc: "" });
const SCHEMA = new Map([
  ["python.torch_steps", { doc: "steps", columns: [column("step"), column("duration")] }],
  ["python.torch_trace", { doc: "calls", columns: [column("module"), column("duration_ms")] }],
  ["system.cpu", { doc: "CPU", columns: [column("cpu_percent")] }],
]);

// The | is the caret.
function labels(text) {
  const caret = text.indexOf("|");
  return completions(text.replace("|", ""), caret, SCHEMA).items.map(({ label }) => label);
}

test("the words of a text are the text", () => {
  const sql = "SELECT 'it''s' -- why\nFROM \"a b\", t /* not closed";
  assert.equal(
    tokens(sql)
      .map(({ text }) => text)
      .join(""),
    sql,
  );
  assert.deepEqual(
    tokens("select 1.5e3, 'x").map(({ kind }) => kind),
    ["keyword", "other", "number", "other", "other", "string"],
  );
});

test("tables of a query are known by name and alias", () => {
  const found = tablesIn(
    "SELECT * FROM global.python.torch_steps AS s JOIN system.cpu USING (pid) -- FROM nowhere",
  );
  assert.equal(found.get("s"), "python.torch_steps");
  assert.equal(found.get("system.cpu"), "system.cpu");
  assert.equal(found.has("nowhere"), false);
  assert.equal(found.has("using"), false);
});

test("tables come after FROM and JOIN, by any part of their names", () => {
  assert.deepEqual(labels("SELECT * FROM |"), [...SCHEMA.keys()]);
  assert.deepEqual(labels("SELECT * FROM torch|"), ["python.torch_steps", "python.torch_trace"]);
  assert.deepEqual(labels("SELECT * FROM system.cpu, python.torch_t|"), ["python.torch_trace"]);
  assert.deepEqual(labels("SELECT * FROM global.sys|"), ["global.system.cpu"]);
});

test("columns are those of the tables in the query, also before FROM", () => {
  const found = labels("SELECT dur| FROM python.torch_steps");
  assert.equal(found[0], "duration");
  assert.ok(!found.includes("duration_ms"));
});

test("after an alias only the columns of its table are meant", () => {
  const text = "SELECT t.| FROM python.torch_trace t";
  assert.deepEqual(labels(text), ["module", "duration_ms"]);
  assert.equal(completions(text.replace("|", ""), 9, SCHEMA).from, 9);
});

test("nothing is completed inside of a string or a comment", () => {
  assert.deepEqual(labels("SELECT 'fro|"), []);
  assert.deepEqual(labels("SELECT 1 -- fro|"), []);
});
