// Other looks at the same stacks: one function with who calls it and what it calls; classes left out. Pure.
import { ranges } from "./cluster";
import { buildTree } from "./flame_tree";
import type { FlameClass } from "./flame_palette";
import type { FlameNode, FlameStack } from "../types/flame";

// Frames of these classes are taken out; what they call hangs below their callers.
export function withoutClasses(stacks: FlameStack[], hidden: ReadonlySet<FlameClass>): FlameStack[] {
  if (hidden.size === 0) return stacks;
  return stacks
    .map((stack) => ({ ...stack, frames: stack.frames.filter(({ kind }) => !hidden.has(kind)) }))
    .filter(({ frames, running, gil }) => frames.length > 0 && !(hidden.has("idle") && !running && !gil));
}

// The number in "rank 3", and in "rank 3 process 12 train.py".
export function rankIn(name: string): number | null {
  const found = /^rank (\d+)/.exec(name);
  return found ? Number(found[1]) : null;
}

// "ranks 0–2, 4", of a job; "" where there is one rank only, or none.
export function rankSet(names: Set<string>, all: Set<string>): string {
  const numbers = [...new Set([...names].map(rankIn))].filter((rank) => rank !== null).sort((a, b) => a - b);
  if (all.size < 2 || numbers.length === 0) return "";
  return `${numbers.length === 1 ? "rank" : "ranks"} ${ranges(numbers)}`;
}

// What calls a function, and what it calls. A function that calls itself counts once, at the outermost place.
export function sandwich(stacks: FlameStack[], label: string): { callers: FlameNode; callees: FlameNode } {
  const through = stacks.flatMap((stack) => {
    const at = stack.frames.findIndex((frame) => frame.label === label);
    return at < 0 ? [] : [{ stack, at }];
  });
  const above = through.map(({ stack, at }) => ({ ...stack, frames: stack.frames.slice(0, at + 1).reverse() }));
  const below = through.map(({ stack, at }) => ({ ...stack, frames: stack.frames.slice(at) }));
  return { callers: rootOf(buildTree(above)), callees: rootOf(buildTree(below)) };
}

// The function itself, where it is all that there is.
function rootOf(tree: FlameNode): FlameNode {
  const [only] = tree.children.values();
  return only ?? tree;
}
