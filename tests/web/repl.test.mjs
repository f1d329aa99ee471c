// Completion at the prompt of the page.
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseCompletion, withCompletion } from "../../web/lib/repl.js";

test("a candidate replaces what was typed of it", () => {
  const found = parseCompletion("3\nprint");
  assert.equal(withCompletion("x = pri", found), "x = print");
});

test("of several candidates what they have in common is taken", () => {
  assert.equal(withCompletion("a.ze", parseCompletion("2\nzero_grad\nzero_")), "a.zero_");
  assert.equal(withCompletion("a.x", parseCompletion("1\nxy\nzz")), "a.x");
});

test("nothing found changes nothing", () => {
  assert.equal(withCompletion("a.q", parseCompletion("0")), "a.q");
  assert.deepEqual(parseCompletion("0").candidates, []);
});
