// The store of many hosts (the setting probing.store): its name, and the ranks that have sent rows to it.
// Questions are in SQL that every ClickHouse understands; what belongs together is put together here.
import { get, records } from "./api";
import type { ClusterRows, OfJob, RankRow, RankStep } from "../types/targets";

const RECENT_S = 60;
const STEPS_S = 600;
const MOST_STEPS = 200;

// Null when there is none. Without the password that its address may have.
export async function storeName(signal: AbortSignal): Promise<string | null> {
  const { settings } = await get("config", signal);
  const address = settings.find(({ name }) => name === "probing.store")?.value ?? "none";
  return address === "none" ? null : address.replace(/:\/\/[^@/]*@/, "://").replace(/\?.*$/, "");
}

const recent = `timestamp > now() - ${RECENT_S} AND isNotNull(rank)`;

export const STORE_QUERIES = {
  steps: `SELECT host, pid, rank, max(job) AS job, max(step) AS step, avg(duration) AS duration, avg(data_wait) AS data_wait,
      count() AS steps FROM python.torch_steps WHERE ${recent} GROUP BY host, pid, rank`,
  waits: `SELECT host, pid, rank, max(job) AS job, sum(duration_ms) / 1e3 AS waited FROM python.collectives
    WHERE ${recent} GROUP BY host, pid, rank`,
  cpu: `SELECT host, pid, rank, max(job) AS job, avg(cpu_percent) AS cpu FROM system.cpu WHERE ${recent} GROUP BY host, pid, rank`,
  memory: `SELECT host, pid, rank, max(job) AS job, max(rss) AS rss FROM system.memory WHERE ${recent} GROUP BY host, pid, rank`,
  heat: `SELECT job, rank, step, duration FROM python.torch_steps
    WHERE timestamp > now() - ${STEPS_S} AND isNotNull(rank) ORDER BY step DESC LIMIT 50000`,
};

interface RankKey extends OfJob {
  host: string;
  pid: number;
  rank: number | null;
}

export interface StoreRows {
  steps: (RankKey & Pick<RankRow, "step" | "duration" | "data_wait"> & { steps: number })[];
  waits: (RankKey & { waited: number | null })[];
  cpu: (RankKey & { cpu: number | null })[];
  memory: (RankKey & { rss: number | null })[];
  heat: RankStep[];
}

// A table that nobody has written to does not exist there.
async function rowsOf<T>(sql: string, signal: AbortSignal): Promise<T[]> {
  try {
    return await records<T>(sql, { store: true, signal });
  } catch (error) {
    if (error instanceof Error && /UNKNOWN_TABLE|doesn't exist|does not exist/i.test(error.message))
      return [];
    throw error;
  }
}

export async function loadStore(signal: AbortSignal): Promise<ClusterRows> {
  const [steps, waits, cpu, memory, heat] = await Promise.all([
    rowsOf<StoreRows["steps"][number]>(STORE_QUERIES.steps, signal),
    rowsOf<StoreRows["waits"][number]>(STORE_QUERIES.waits, signal),
    rowsOf<StoreRows["cpu"][number]>(STORE_QUERIES.cpu, signal),
    rowsOf<StoreRows["memory"][number]>(STORE_QUERIES.memory, signal),
    rowsOf<RankStep>(STORE_QUERIES.heat, signal),
  ]);
  return rowsOfRanks({ steps, waits, cpu, memory, heat });
}

const keyOf = ({ host, pid }: RankKey) => `${host} ${pid}`;

export function rowsOfRanks({ steps, waits, cpu, memory, heat }: StoreRows): ClusterRows {
  const ranks = new Map<string, RankRow>();
  const rowOf = (row: RankKey) => {
    const key = keyOf(row);
    const { host, pid, rank, job } = row;
    const none = { step: null, duration: null, data_wait: null, waiting: null, cpu: null, rss: null };
    if (!ranks.has(key))
      ranks.set(key, { host, pid: Number(pid), rank, job, state: "live", stored: true, ...none });
    return ranks.get(key)!;
  };
  const counts = new Map(steps.map((row) => [keyOf(row), Number(row.steps)]));
  for (const row of steps) {
    Object.assign(rowOf(row), { step: row.step, duration: row.duration, data_wait: row.data_wait });
  }
  for (const row of waits) {
    const many = counts.get(keyOf(row));
    rowOf(row).waiting = many && row.waited !== null ? row.waited / many : null;
  }
  for (const row of cpu) rowOf(row).cpu = row.cpu;
  for (const row of memory) rowOf(row).rss = row.rss;
  const last = new Map<string | null, number>();
  for (const { job, step } of heat) last.set(job, Math.max(last.get(job) ?? -Infinity, step));
  const order = (a: RankKey, b: RankKey) => (a.rank ?? 0) - (b.rank ?? 0) || a.pid - b.pid;
  return {
    ranks: [...ranks.values()].sort(order),
    stacks: [], // are read from processes, and not kept
    steps: heat.filter(({ job, step }) => step > last.get(job)! - MOST_STEPS).sort((a, b) => a.rank - b.rank),
    slowest: [],
  };
}
