// Stacks of all threads, Python only (SQL) or with native frames (a recording of a moment).
import { post, records } from "./api";
import type { Profile } from "../types/api";
import type { StackRow, Thread } from "../types/flame";

const OWN_FILE = "<libprobing>"; // functions of the probe, which stand between those of the program
export const NOT_OURS = `file IS DISTINCT FROM '${OWN_FILE}'`;
const SQL = `SELECT tid, thread_name, has_gil, state, wait_channel, task, depth, func, file, lineno
  FROM python.stacks WHERE ${NOT_OURS} ORDER BY tid, depth`;
const MOMENT = { seconds: 0.05, hz: 40, native: true };

export async function loadStacks(
  target: number,
  { native, signal }: { native: boolean; signal: AbortSignal },
): Promise<Thread[]> {
  const rows: StackRow[] = await records(SQL, { target, signal });
  const threads = groupThreads(rows);
  if (!native) return threads;
  const profile = await post("profile", { target, ...MOMENT }, signal);
  return withNative(threads, profile);
}

export function groupThreads(rows: StackRow[]): Thread[] {
  const threads: Map<number, Thread> = new Map();
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
    let thread = threads.get(tid);
    if (!thread) threads.set(tid, (thread = { tid, name, gil, state, waits, task, frames: [] }));
    thread.frames.push({ depth, func, file, lineno, isNative: false });
  }
  return [...threads.values()];
}

// The last sample of each thread; those without Python are added below.
export function withNative(threads: Thread[], profile: Profile): Thread[] {
  const { thread, stack, on_cpu: onCpu, has_gil: hasGil } = profile.samples;
  const last = new Map(thread.map((id, i) => [id, i]));
  const known = new Map(threads.map((one) => [one.tid, one]));
  const made = profile.threads.map(({ tid, name }, id) => {
    const i = last.get(id);
    if (i === undefined) return null;
    const frames = profile.stacks[stack[i]].map((frame) => profile.frames[frame]).reverse();
    const theirs = frames.filter(({ file }) => file !== OWN_FILE);
    const shown = theirs.map(({ kind, func, file, lineno }) => ({
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
  return made
    .filter((one) => one !== null)
    .filter((one) => one.frames.length > 0)
    .sort((a, b) => a.tid - b.tid);
}

export function stackText({ tid, name, state, gil, waits, frames }: Thread) {
  const facts = [state, gil ? "has the GIL" : "", waits ? `waits in ${waits}` : ""]
    .filter(Boolean)
    .join(", ");
  const lines = frames.map(({ func, file, lineno }) => `    ${func} (${file}${lineno ? `:${lineno}` : ""})`);
  return [`Thread ${tid} "${name ?? ""}" ${facts}`, ...lines].join("\n");
}
