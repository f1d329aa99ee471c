// Stacks of all threads, Python only (SQL) or with native frames (a recording of a moment).
import { post, records } from "./api.js";

const SQL = `SELECT tid, thread_name, has_gil, state, wait_channel, task, depth, func, file, lineno
  FROM python.stacks ORDER BY tid, depth`;
const MOMENT = { seconds: 0.05, hz: 40, native: true };

/** @returns {Promise<{tid, name, gil, state, waits, task, frames: {depth, func, file, lineno, isNative}[]}[]>}
 *  the innermost frame first; `depth` is null when locals cannot be asked for */
export async function loadStacks(target, { native, signal }) {
  const rows = await records(SQL, { target, signal });
  const threads = groupThreads(rows);
  if (!native) return threads;
  const profile = await post("profile", { target, ...MOMENT }, signal);
  return withNative(threads, profile);
}

export function groupThreads(rows) {
  const threads = new Map();
  for (const {
    tid,
    thread_name: name,
    has_gil: gil,
    state,
    wait_channel: waits,
    task,
    depth,
    func,
    file,
    lineno,
  } of rows) {
    if (!threads.has(tid)) threads.set(tid, { tid, name, gil, state, waits, task, frames: [] });
    threads.get(tid).frames.push({ depth, func, file, lineno, isNative: false });
  }
  return [...threads.values()];
}

// The last sample of each thread; those without Python are added below.
export function withNative(threads, profile) {
  const { thread, stack, on_cpu: onCpu, has_gil: hasGil } = profile.samples;
  const last = new Map(thread.map((id, i) => [id, i]));
  const known = new Map(threads.map((one) => [one.tid, one]));
  const made = profile.threads.map(({ tid, name }, id) => {
    const i = last.get(id);
    if (i === undefined) return null;
    const frames = profile.stacks[stack[i]].map((frame) => profile.frames[frame]).reverse();
    const shown = frames.map(({ kind, func, file, lineno }) => ({
      depth: null,
      func,
      file,
      lineno,
      isNative: kind === "native",
    }));
    const state = onCpu[i] ? "running" : (known.get(tid)?.state ?? "sleeping");
    return {
      ...known.get(tid),
      tid,
      name: known.get(tid)?.name || name,
      gil: hasGil[i],
      state,
      frames: shown,
    };
  });
  return made.filter((one) => one !== null && one.frames.length > 0).sort((a, b) => a.tid - b.tid);
}

export function stackText({ tid, name, state, gil, waits, frames }) {
  const facts = [state, gil ? "has the GIL" : "", waits ? `waits in ${waits}` : ""]
    .filter(Boolean)
    .join(", ");
  const lines = frames.map(({ func, file, lineno }) => `    ${func} (${file}${lineno ? `:${lineno}` : ""})`);
  return [`Thread ${tid} "${name ?? ""}" ${facts}`, ...lines].join("\n");
}
