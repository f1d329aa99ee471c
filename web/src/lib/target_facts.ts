// What is known about each target now, from several tables, as one object each.
import { asFailure, records } from "./api";
import { parseTime } from "./format";
import { NOT_OURS } from "./stacks";
import { targets } from "./targets";
import type { CpuRow, CrashRow, Facts, GpuRow, PlaceRow, ProcessRow, TrainingRow } from "../types/targets";

const PROCESSES =
  "SELECT pid, cmdline, state, ppid, user, started, threads, rss, vms, fds FROM system.process";
const CPU = `SELECT pid, max(rank) AS rank,
  arg_max(cpu_percent, timestamp) FILTER (timestamp > now() - interval '10 seconds') AS cpu
  FROM system.cpu GROUP BY pid`;
// The innermost frame of the program's own code, where there is one: a line of a library says little.
const OWN = "NOT regexp_matches(file, '/(site|dist)-packages/|/lib/python3[^/]*/|^<(frozen|libprobing)')";
const PLACES = `SELECT pid, string_agg(func || ':' || coalesce(lineno, 0), ';' ORDER BY depth) AS place,
  coalesce(arg_min(func, depth) FILTER (${OWN}), arg_min(func, depth)) AS func,
  coalesce(arg_min(file, depth) FILTER (${OWN}), arg_min(file, depth)) AS file,
  coalesce(arg_min(lineno, depth) FILTER (${OWN}), arg_min(lineno, depth)) AS lineno,
  arg_min(func, depth) FILTER (${NOT_OURS}) AS leaf
  FROM python.backtrace GROUP BY pid`;
const STEPS = `SELECT pid, max(step) AS step, avg(duration) FILTER (timestamp > now() - interval '30 seconds') AS seconds
  FROM python.torch_steps GROUP BY pid`;
const GPUS = `SELECT pid, avg(util) AS percent, sum(used) AS bytes FROM (
    SELECT pid, device, arg_max(util_percent, timestamp) AS util, arg_max(process_memory, timestamp) AS used
    FROM system.gpu WHERE timestamp > now() - interval '10 seconds' GROUP BY pid, device)
  GROUP BY pid`;
const LOGGED = "SELECT pid, max(step) AS step FROM python.metrics GROUP BY pid";
const CRASHES = "SELECT pid, reason, exit_code, signal, message FROM crash.events ORDER BY timestamp";

// About the table, that is: the question was taken back, or nobody is there to answer.
function saysNothing(error: unknown) {
  const { name, code } = asFailure(error);
  return name === "AbortError" || code === "unreachable";
}

// Facts that one table cannot give are missing; only when all fail there is something to say.
async function optional<T>(promise: Promise<T[]>): Promise<T[]> {
  try {
    return await promise;
  } catch (error) {
    if (saysNothing(error)) throw error;
    return [];
  }
}

// One target that cannot be read (no Python, not ours) must not hide where the others are.
async function places(
  target: number | null,
  signal: AbortSignal,
  listed: Promise<void> | null,
): Promise<PlaceRow[]> {
  try {
    return await records(PLACES, { target, signal });
  } catch (error) {
    if (target || saysNothing(error)) return [];
  }
  await listed;
  const each: Promise<PlaceRow[]>[] = targets.live.map(({ pid }) =>
    optional(records(PLACES, { target: pid, signal })),
  );
  return (await Promise.all(each)).flat();
}

function byPid<T extends { pid: number }>(rows: T[]): Map<number, T> {
  return new Map(rows.map((row) => [row.pid, row]));
}

// One for each target, or for the one that is asked for.
export async function loadFacts(target: number | null, signal: AbortSignal): Promise<Facts[]> {
  const options = { target, signal };
  const listed = targets.list === null ? targets.refresh() : null;
  const [processes, cpu, at, steps, logged, crashes, gpus] = await Promise.all([
    optional(records<ProcessRow>(PROCESSES, options)),
    optional(records<CpuRow>(CPU, options)),
    places(target, signal, listed),
    optional(records<TrainingRow>(STEPS, options)),
    optional(records<TrainingRow>(LOGGED, options)),
    optional(records<CrashRow>(CRASHES, options)),
    optional(records<GpuRow>(GPUS, options)),
    listed,
  ]);
  const known = (targets.list ?? []).filter(({ pid }) => !target || pid === target);
  if (target && known.length === 0 && processes.length > 0)
    known.push({ pid: target, command: "", state: "live" });
  const [processOf, loadOf, placeOf] = [byPid(processes), byPid(cpu), byPid(at)];
  const [stepOf, logOf, crashOf, gpuOf] = [byPid(steps), byPid(logged), byPid(crashes), byPid(gpus)];
  const facts = known.map((one) => {
    const process = processOf.get(one.pid) ?? null;
    const load = loadOf.get(one.pid);
    const step = stepOf.get(one.pid);
    return {
      ...one,
      process,
      cpu: load?.cpu ?? null,
      gpu: gpuOf.get(one.pid) ?? null,
      rank: load?.rank ?? null,
      at: placeOf.get(one.pid) ?? null,
      step: step?.step ?? logOf.get(one.pid)?.step ?? null,
      stepSeconds: step?.seconds ?? null,
      crash: crashOf.get(one.pid) ?? null,
      children: target ? processes.length - 1 : null,
      upSeconds: process ? (Date.now() - parseTime(process.started)) / 1000 : null,
    };
  });
  return facts.sort((a, b) => (a.rank ?? Infinity) - (b.rank ?? Infinity) || a.pid - b.pid);
}

// Remembers since when each main thread has been seen at the same place.
export class Stillness {
  seen: Map<number, { place: string | null; since: number }> = new Map();

  see(facts: Facts[]) {
    for (const { pid, at } of facts) {
      const place = at?.place ?? null;
      if (this.seen.get(pid)?.place !== place) this.seen.set(pid, { place, since: Date.now() });
    }
  }

  secondsAt(pid: number) {
    const seen = this.seen.get(pid);
    return seen?.place ? (Date.now() - seen.since) / 1000 : 0;
  }
}
