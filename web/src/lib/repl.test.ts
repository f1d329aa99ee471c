// Completion at the prompt of the page.
import { expect, test } from "vitest";
import { parseCompletion, withCompletion } from "./repl";

test("a candidate replaces what was typed of it", () => {
  const found = parseCompletion("3\nprint");
  expect(withCompletion("x = pri", found)).toBe("x = print");
});

test("of several candidates what they have in common is taken", () => {
  expect(withCompletion("a.ze", parseCompletion("2\nzero_grad\nzero_"))).toBe("a.zero_");
  expect(withCompletion("a.x", parseCompletion("1\nxy\nzz"))).toBe("a.x");
});

test("nothing found changes nothing", () => {
  expect(withCompletion("a.q", parseCompletion("0"))).toBe("a.q");
  expect(parseCompletion("0").candidates).toEqual([]);
});
