// What is known about each target now, from several tables, as one object each.
import { records } from "./api.js";
import { parseTime } from "./format.js";
import { targets } from "./targets.js";

const PROCESSES =
  "SELECT pid, cmdline, state, ppid, user, started, threads, rss, vms, fds FROM system.process";
const CPU = `SELECT pid, max(rank) AS rank,
  arg_max(cpu_percent, timestamp) FILTER (timestamp > now() - interval '10 seconds') AS cpu
  FROM system.cpu GROUP BY pid`;
const PLACES = `SELECT pid, string_agg(func || ':' || coalesce(lineno, 0), ';' ORDER BY depth) AS place,
  arg_min(func, depth) AS func, arg_min(file, depth) AS file, arg_min(lineno, depth) AS lineno
  FROM python.backtrace GROUP BY pid`;
const STEPS = `SELECT pid, max(step) AS step, avg(duration) FILTER (timestamp > now() - interval '30 seconds') AS seconds
  FROM python.torch_steps GROUP BY pid`;
const LOGGED = "SELECT pid, max(step) AS step FROM python.metrics GROUP BY pid";
const CRASHES = "SELECT pid, reason, exit_code, signal, message FROM crash.events ORDER BY timestamp";

// Facts that one table cannot give are missing; only when all fail there is something to say.
async function optional(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error.name === "AbortError" || error.code === "unreachable") throw error;
    return [];
  }
}

// One target that cannot be read (no Python, not ours) must not hide where the others are.
async function places(target, signal, listed) {
  try {
    return await records(PLACES, { target, signal });
  } catch (error) {
    if (target || error.name === "AbortError" || error.code === "unreachable") return [];
  }
  await listed;
  const each = targets.live.map(({ pid }) => optional(records(PLACES, { target: pid, signal })));
  return (await Promise.all(each)).flat();
}

function byPid(rows) {
  return new Map(rows.map((row) => [row.pid, row]));
}

/** @returns {Promise<object[]>} one for each target, or for the one that is asked for */
export async function loadFacts(target, signal) {
  const options = { target, signal };
  const listed = targets.list === null ? targets.refresh() : null;
  const [processes, cpu, at, steps, logged, crashes] = await Promise.all([
    optional(records(PROCESSES, options)),
    optional(records(CPU, options)),
    places(target, signal, listed),
    optional(records(STEPS, options)),
    optional(records(LOGGED, options)),
    optional(records(CRASHES, options)),
    listed,
  ]);
  const known = targets.list.filter(({ pid }) => !target || pid === target);
  if (target && known.length === 0 && processes.length > 0)
    known.push({ pid: target, command: "", state: "live" });
  const tables = [processes, cpu, at, steps, logged, crashes].map(byPid);
  const facts = known.map((one) => {
    const [process, load, place, step, log, crash] = tables.map((table) => table.get(one.pid) ?? null);
    return {
      ...one,
      process,
      cpu: load?.cpu ?? null,
      rank: load?.rank ?? null,
      at: place,
      step: step?.step ?? log?.step ?? null,
      stepSeconds: step?.seconds ?? null,
      crash,
      children: target ? processes.length - 1 : null,
      upSeconds: process ? (Date.now() - parseTime(process.started)) / 1000 : null,
    };
  });
  return facts.sort((a, b) => (a.rank ?? Infinity) - (b.rank ?? Infinity) || a.pid - b.pid);
}

// Remembers since when each main thread has been seen at the same place.
export class Stillness {
  seen = new Map();

  see(facts) {
    for (const { pid, at } of facts) {
      const place = at?.place ?? null;
      if (this.seen.get(pid)?.place !== place) this.seen.set(pid, { place, since: Date.now() });
    }
  }

  secondsAt(pid) {
    const seen = this.seen.get(pid);
    return seen?.place ? (Date.now() - seen.since) / 1000 : 0;
  }
}
