// From recorded stacks to the boxes of a flame graph. Pure functions; tests in tests/web.
import { shortFile } from "./format.js";

/**
 * What POST profile answers, as [{thread, frames: [{label, file, kind}], running, gil, weight}] with the
 * outermost frame first. `byLine` tells lines of one function apart.
 */
export function fromProfile(profile, { byLine = false } = {}) {
  const frames = profile.frames.map((frame) => ({
    label: label(frame, byLine),
    file: frame.file,
    kind: frame.kind,
  }));
  const threads = profile.threads.map(({ tid, name }) => `thread ${tid} ${name}`);
  const { weight, thread, stack, on_cpu: onCpu, has_gil: hasGil } = profile.samples;
  return weight.map((ticks, i) => ({
    thread: threads[thread[i]],
    frames: profile.stacks[stack[i]].map((id) => frames[id]),
    running: onCpu[i],
    gil: hasGil[i],
    weight: ticks,
  }));
}

function label({ func, file, lineno, first_line: firstLine }, byLine) {
  if (!file) return func;
  const line = byLine ? lineno : firstLine;
  return `${func} (${shortFile(file)}${line > 0 ? `:${line}` : ""})`;
}

// The same from GET samples, whose frames are labels with lines: "step (train.py:12)".
export function fromFolded(folded, { byLine = false } = {}) {
  const frameOf = (text) => {
    const native = !/\.py(:\d+)?\)$/.test(text) && !/<[\w ]+>(:\d+)?\)$/.test(text);
    return {
      label: byLine ? text : text.replace(/:\d+\)$/, ")"),
      file: "",
      kind: native ? "native" : "python",
    };
  };
  return folded.map((one) => ({
    thread: `thread ${one.tid} ${one.thread_name}`,
    frames: one.stack.map(frameOf),
    running: one.on_cpu,
    gil: one.has_gil,
    weight: one.weight,
  }));
}

// "active": on a CPU or with the GIL; "gil": with the GIL; "all".
export function select(stacks, { shown = "active" } = {}) {
  return stacks.filter(({ frames, running, gil }) => {
    if (frames.length === 0) return false;
    if (shown === "gil") return gil;
    return shown === "all" || running || gil;
  });
}

function node(frame) {
  return { ...frame, ticks: 0, idle: 0, self: 0, children: new Map() };
}

function child(parent, frame, { weight, running, gil }) {
  const key = `${frame.kind}\0${frame.label}\0${frame.file}`;
  let found = parent.children.get(key);
  if (!found) parent.children.set(key, (found = node(frame)));
  found.ticks += weight;
  if (!running && !gil) found.idle += weight;
  return found;
}

export function buildTree(stacks, { byThread = false } = {}) {
  const root = node({ label: "all", file: "", kind: "group" });
  for (const stack of stacks) {
    root.ticks += stack.weight;
    let at = root;
    if (byThread) at = child(at, { label: stack.thread, file: "", kind: "group" }, stack);
    for (const frame of stack.frames) at = child(at, frame, stack);
    at.self += stack.weight;
  }
  return root;
}

/**
 * Boxes by depth, callers first: {node, depth, start, ticks, path}. Without recursion, since stacks may be
 * thousands of frames deep.
 */
export function layout(root) {
  const boxes = [];
  let depth = 0;
  const pending = [{ node: root, depth: 0, start: 0, parent: null }];
  while (pending.length > 0) {
    const now = pending.pop();
    const box = { ...now, ticks: now.node.ticks };
    boxes.push(box);
    depth = Math.max(depth, now.depth);
    let { start } = now;
    const children = [...now.node.children.values()].sort((a, b) =>
      a.label < b.label ? -1 : Number(a.label > b.label),
    );
    const placed = children.map((one) => {
      const at = { node: one, depth: now.depth + 1, start, parent: box };
      start += one.ticks;
      return at;
    });
    pending.push(...placed.reverse());
  }
  return { boxes, depth, total: root.ticks };
}

// How much more of the time each box takes than it did in the other tree: share now minus share then.
export function compare(root, before) {
  const changes = new Map();
  const pending = [[root, before]];
  while (pending.length > 0) {
    const [now, then] = pending.pop();
    const share = now.ticks / Math.max(root.ticks, 1);
    changes.set(now, share - (then ? then.ticks / Math.max(before.ticks, 1) : 0));
    for (const [key, one] of now.children) pending.push([one, then?.children.get(key)]);
  }
  return changes;
}

// Functions by the time they took themselves; a function that calls itself counts once in `total`.
export function ranking(stacks, limit = 30) {
  const functions = new Map();
  let all = 0;
  for (const { frames, weight } of stacks) {
    all += weight;
    const seen = new Set();
    frames.forEach((frame, i) => {
      let entry = functions.get(frame.label);
      if (!entry)
        functions.set(frame.label, (entry = { label: frame.label, kind: frame.kind, self: 0, total: 0 }));
      if (!seen.has(entry)) entry.total += weight;
      seen.add(entry);
      if (i === frames.length - 1) entry.self += weight;
    });
  }
  const list = [...functions.values()].sort((a, b) => b.self - a.self || b.total - a.total);
  return { all, list: list.slice(0, limit) };
}

// As `probing record` writes them: frames joined by ;, a space, the weight.
export function collapsed(stacks) {
  const sums = new Map();
  for (const { frames, weight } of stacks) {
    const key = frames.map(({ label: text }) => text.replaceAll(";", ":")).join(";");
    sums.set(key, (sums.get(key) ?? 0) + weight);
  }
  return [...sums].map(([key, weight]) => `${key} ${weight}\n`).join("");
}
