// What the frame of the page needs is asked for at once, not module by module.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { test } from "node:test";

const WEB = new URL("../../web/", import.meta.url).pathname;
const read = (path) => readFileSync(join(WEB, path), "utf8");

function importsOf(path, known = new Set()) {
  if (known.has(path)) return known;
  known.add(path);
  for (const [, name] of read(path).matchAll(/^(?:import|export)[^;]*?from "(\.[^"]+)";/gms))
    importsOf(normalize(join(dirname(path), name)), known);
  return known;
}

test("index.html preloads all that app.js imports", () => {
  const links = [...read("index.html").matchAll(/rel="modulepreload" href="([^"]+)"/g)].map(([, path]) => path);
  assert.deepEqual([...importsOf("app.js")].filter((path) => path !== "app.js").sort(), links);
});
