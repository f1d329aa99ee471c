// From recorded stacks to the boxes of a flame graph. Pure functions; tests beside it.
import { shortFile } from "./format";
import type { FoldedStack, Profile, ProfileFrame, ProfileThread } from "../types/api";
import { classOf } from "./flame_palette";
import type { FlameClass } from "./flame_palette";
import type { FlameBox, FlameFrame, FlameNode, FlameOrder, FlameStack, IntervalRow } from "../types/flame";

// What POST profile answers. `byLine` tells lines of one function apart; `rank` is whose it is, of several.
export function fromProfile(
  profile: Profile,
  { byLine = false, byProcess = false, rank = "" }: { byLine?: boolean; byProcess?: boolean; rank?: string } = {},
): FlameStack[] {
  const frames = profile.frames.map((frame) => ({
    label: label(frame, byLine),
    file: frame.file,
    kind: classOf(frame.kind, frame.file),
  }));
  const threads = profile.threads.map(({ tid, name }) => `thread ${tid} ${name}`);
  // Of a job each thread knows its rank.
  const whose = ({ pid, process, rank: own }: ProfileThread) => {
    if (byProcess) return `${own === undefined ? "" : `rank ${own} `}process ${pid} ${process}`;
    return own === undefined ? rank : `rank ${own}`;
  };
  const processes = profile.threads.map(whose);
  const { start_ns: start = [], weight, thread, stack, on_cpu: onCpu, has_gil: hasGil } = profile.samples;
  return weight.map((ticks, i) => ({
    rank: processes[thread[i]],
    thread: threads[thread[i]],
    frames: profile.stacks[stack[i]].map((id) => frames[id]),
    running: onCpu[i],
    gil: hasGil[i],
    weight: ticks,
    start: start[i] ?? i,
  }));
}

function label({ func, file, lineno, first_line: firstLine }: ProfileFrame, byLine: boolean): string {
  if (!file) return func;
  const line = byLine ? lineno : firstLine;
  return `${func} (${shortFile(file)}${line > 0 ? `:${line}` : ""})`;
}

// What stands in brackets at the end of a label is a file, as short as everywhere.
function shortPlace(text: string) {
  return text.replace(/ \((\/[^()]*)\)$/, (_all, place: string) => ` (${shortFile(place)})`);
}

// The same from GET samples, whose frames are labels with lines ("step (train.py:12)") and their classes.
export function fromFolded(
  folded: FoldedStack[],
  { byLine = false, rank = "" }: { byLine?: boolean; rank?: string } = {},
): FlameStack[] {
  const known: Map<string, FlameClass> = new Map();
  for (const { stack, classes } of folded) stack.forEach((text, i) => classes?.[i] && known.set(text, classes[i]));
  const frames: Map<string, FlameFrame> = new Map();
  const frameOf = (text: string) => {
    let frame = frames.get(text);
    if (!frame) {
      const isPython = /\.py(:\d+)?\)$/.test(text) || /<[\w ]+>(:\d+)?\)$/.test(text);
      const kind = known.get(text) ?? (isPython ? "own" : "native");
      const shown = byLine ? shortPlace(text) : shortPlace(text).replace(/:\d+\)$/, ")");
      frames.set(text, (frame = { label: shown, file: "", kind }));
    }
    return frame;
  };
  return folded.map((one, i) => ({
    rank,
    thread: `thread ${one.tid} ${one.thread_name}`,
    frames: one.stack.map(frameOf),
    running: one.on_cpu,
    gil: one.has_gil,
    weight: one.weight,
    start: i,
  }));
}

// The samples of the last seconds, and of as many before them. `recent` tells them apart.
export function intervalSql(seconds: number, periodNs: number) {
  const ago = (times: number) => `now() - interval '${Number(seconds) * times} seconds'`;
  return `SELECT tid, stack, on_cpu, has_gil, timestamp > ${ago(1)} AS recent,
      round(sum(weight) * 1e9 / ${Number(periodNs)}) AS weight
    FROM python.samples WHERE timestamp > ${ago(2)} GROUP BY ALL`;
}

// The same of a time that is over; `when` is a condition on it (lib/range.ts).
export function pastSql(when: string, periodNs: number) {
  return `SELECT tid, stack, on_cpu, has_gil, true AS recent, round(sum(weight) * 1e9 / ${Number(periodNs)}) AS weight
    FROM python.samples WHERE ${when} GROUP BY ALL`;
}

// Rows of these queries as those of GET samples, which knows the names of threads and whose code a frame is.
export function splitInterval(rows: IntervalRow[], sampled: FoldedStack[]) {
  const names = new Map(sampled.map(({ tid, thread_name: name }) => [tid, name]));
  const known: Map<string, FlameClass> = new Map();
  for (const { stack, classes } of sampled) stack.forEach((text, i) => classes?.[i] && known.set(text, classes[i]));
  const folded = (recent: boolean): FoldedStack[] =>
    rows
      .filter((row) => row.recent === recent)
      .map(({ stack: text, ...row }) => {
        const stack = text.split(";");
        const classes = stack.map((one) => known.get(one) ?? "own");
        return { ...row, thread_name: names.get(row.tid) ?? "", stack, classes };
      });
  return { now: folded(true), before: folded(false) };
}

// "active": on a CPU or with the GIL; "gil": with the GIL; "all".
export function select(stacks: FlameStack[], { shown = "active" }: { shown?: string } = {}): FlameStack[] {
  return stacks.filter(({ frames, running, gil }) => {
    if (frames.length === 0) return false;
    if (shown === "gil") return gil;
    return shown === "all" || running || gil;
  });
}

function node(frame: FlameFrame, turn = 0): FlameNode {
  return { ...frame, ticks: 0, idle: 0, self: 0, turn, ranks: new Set(), children: new Map() };
}

// `turn` tells boxes of the same function apart where each has its place in time.
function child(
  parent: FlameNode,
  frame: FlameFrame,
  { weight, running, gil, rank }: FlameStack,
  turn: number,
  byTurn: boolean,
): FlameNode {
  const key = `${frame.kind}\0${frame.label}\0${frame.file}${byTurn ? `\0${turn}` : ""}`;
  let found = parent.children.get(key);
  if (!found) parent.children.set(key, (found = node(frame, turn)));
  found.ticks += weight;
  if (rank) found.ranks.add(rank);
  if (!running && !gil) found.idle += weight;
  return found;
}

// In the order of time a thread's stacks stand beside each other as they came, and only neighbours are one box.
export function buildTree(
  stacks: FlameStack[],
  { byThread = false, byRank = false, inTime = false } = {},
): FlameNode {
  const root = node({ label: "all", file: "", kind: "group" });
  const group = (text: string): FlameFrame => ({ label: text, file: "", kind: "group" });
  const order = inTime ? [...stacks].sort((a, b) => (a.thread < b.thread ? -1 : a.thread > b.thread ? 1 : a.start - b.start)) : stacks;
  let last: FlameNode[] = []; // the boxes of the stack before
  let turn = 0;
  for (const stack of order) {
    root.ticks += stack.weight;
    if (stack.rank) root.ranks.add(stack.rank);
    const frames = [
      ...(byRank && stack.rank ? [group(stack.rank)] : []),
      ...(byThread || inTime ? [group(stack.thread)] : []),
      ...stack.frames,
    ];
    let at = root;
    let isSame = true;
    const path: FlameNode[] = [];
    frames.forEach((frame, depth) => {
      isSame &&= !inTime || frame.kind === "group" || (last[depth]?.label === frame.label && last[depth]?.file === frame.file);
      at = child(at, frame, stack, isSame ? (last[depth]?.turn ?? turn) : turn, inTime && frame.kind !== "group");
      path.push(at);
    });
    at.self += stack.weight;
    last = path;
    turn += 1;
  }
  return root;
}

const byLabel = (a: FlameNode, b: FlameNode) => (a.label < b.label ? -1 : Number(a.label > b.label));
const ORDERS: Record<FlameOrder, ((a: FlameNode, b: FlameNode) => number) | null> = {
  name: byLabel,
  heavy: (a, b) => b.ticks - a.ticks || byLabel(a, b),
  time: null, // as they came
};

// Boxes by depth, callers first. Without recursion, since stacks may be thousands of frames deep.
export function layout(root: FlameNode, order: FlameOrder = "name"): { boxes: FlameBox[]; depth: number; total: number } {
  const boxes: FlameBox[] = [];
  let depth = 0;
  const pending: Omit<FlameBox, "ticks">[] = [{ node: root, depth: 0, start: 0, parent: null }];
  for (let now = pending.pop(); now; now = pending.pop()) {
    const { node: owner, depth: level } = now;
    const box = { ...now, ticks: owner.ticks };
    boxes.push(box);
    depth = Math.max(depth, level);
    let { start } = now;
    const children = [...owner.children.values()];
    const compareNodes = ORDERS[order];
    if (compareNodes) children.sort(compareNodes);
    const placed = children.map((one) => {
      const at = { node: one, depth: level + 1, start, parent: box };
      start += one.ticks;
      return at;
    });
    pending.push(...placed.reverse());
  }
  return { boxes, depth, total: root.ticks };
}

// How much more of the time each box takes than it did in the other tree: share now minus share then.
export function compare(root: FlameNode, before: FlameNode): Map<FlameNode, number> {
  const changes: Map<FlameNode, number> = new Map();
  const pending: [FlameNode, FlameNode | undefined][] = [[root, before]];
  for (let pair = pending.pop(); pair; pair = pending.pop()) {
    const [now, then] = pair;
    const share = now.ticks / Math.max(root.ticks, 1);
    changes.set(now, share - (then ? then.ticks / Math.max(before.ticks, 1) : 0));
    for (const [key, one] of now.children) pending.push([one, then?.children.get(key)]);
  }
  return changes;
}

// Functions by the time they took themselves; a function that calls itself counts once in `total`.
export function ranking(stacks: FlameStack[], limit = 30) {
  const functions: Map<string, { label: string; kind: FlameClass; self: number; total: number }> = new Map();
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
export function collapsed(stacks: FlameStack[]) {
  const sums: Map<string, number> = new Map();
  for (const { frames, weight } of stacks) {
    const key = frames.map(({ label: text }) => text.replaceAll(";", ":")).join(";");
    sums.set(key, (sums.get(key) ?? 0) + weight);
  }
  return [...sums].map(([key, weight]) => `${key} ${weight}\n`).join("");
}
