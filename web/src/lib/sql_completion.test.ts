// What the SQL editor completes; which of it fits what is typed is CodeMirror's work.
import { expect, test } from "vitest";
import type { Table } from "../types/tables";
import { completionsAt, scan } from "./sql_completion";

const column = (name: string) => ({ name, type: "DOUBLE", unit: "", doc: "" });
const table = (doc: string, ...columns: string[]): Table => ({
  doc,
  kind: "ring",
  origin: "probe",
  columns: columns.map(column),
});
const SCHEMA = new Map([
  ["python.torch_steps", table("steps", "step", "duration")],
  ["python.torch_trace", table("calls", "module", "duration_ms")],
  ["system.cpu", table("CPU", "cpu_percent")],
]);
const TABLES = [...SCHEMA.keys()];

// The | is the caret.
function labels(text: string) {
  const caret = text.indexOf("|");
  return completionsAt(text.replace("|", ""), caret, SCHEMA).options.map(({ label }) => label);
}

test("tables of a query are known by name and alias", () => {
  const { tables } = scan(
    "SELECT * FROM global.python.torch_steps AS s JOIN system.cpu USING (pid) -- FROM nowhere",
  );
  expect(Object.fromEntries(tables)).toEqual({
    "python.torch_steps": "python.torch_steps",
    s: "python.torch_steps",
    "system.cpu": "system.cpu",
  });
});

test("tables come after FROM and JOIN, and after a comma between them", () => {
  expect(labels("SELECT * FROM |")).toEqual(TABLES);
  expect(labels("SELECT * FROM torch|")).toEqual(TABLES);
  expect(labels("SELECT * FROM system.cpu, python.torch_t|")).toEqual(TABLES);
  expect(labels("SELECT * FROM system.cpu JOIN (SELECT step FROM |")).toEqual(TABLES);
  expect(labels("SELECT * FROM global.sys|")).toEqual(TABLES.map((name) => `global.${name}`));
  expect(labels("SELECT step, |")).not.toEqual(TABLES);
});

test("columns are those of the tables in the query, also before FROM", () => {
  const found = labels("SELECT dur| FROM python.torch_steps");
  expect(found.slice(0, 2)).toEqual(["step", "duration"]);
  expect(found).not.toContain("duration_ms");
  expect(found).toContain("SELECT");
});

test("after an alias only the columns of its table are meant", () => {
  const text = "SELECT t.| FROM python.torch_trace t";
  expect(labels(text)).toEqual(["module", "duration_ms"]);
  expect(completionsAt(text.replace("|", ""), 9, SCHEMA).from).toBe(9);
});

test("nothing is completed in strings and comments", () => {
  expect(labels("SELECT 'du| FROM python.torch_steps")).toEqual([]);
  expect(labels("SELECT 1 -- du|")).toEqual([]);
});

test("names that other databases reserve are names here", () => {
  expect(labels("SELECT rank FROM python.torch_steps name WHERE name.|")).toEqual(["step", "duration"]);
});
