// Processes as jobs: ranks that train together are one, everything else is its own. Pure.
import { groupBy } from "./cells";
import { jobName } from "./targets";
import type { Finding } from "../types/api";
import type { Facts, Job, RateRow } from "../types/targets";

const BIN_S = 2;
export const RATE_SECONDS = 120;

// How many steps end in two seconds, of each process: by the tracer, or by what the job logs itself.
export const RATES_SQL = `WITH steps AS (
    SELECT pid, timestamp, step, true AS traced FROM python.torch_steps
    WHERE timestamp > now() - interval '${RATE_SECONDS} seconds' AND phase IS DISTINCT FROM 'validate'
    UNION ALL
    SELECT DISTINCT ON (pid, step) pid, timestamp, step, false AS traced FROM python.metrics
    WHERE timestamp > now() - interval '${RATE_SECONDS} seconds' AND step IS NOT NULL)
  SELECT pid, (epoch(timestamp) / ${BIN_S})::BIGINT * ${BIN_S} AS bin, traced, count(*) / ${BIN_S}.0 AS rate
  FROM steps GROUP BY ALL ORDER BY bin`;

export function jobsOfFacts(facts: Facts[]): Job[] {
  return [...groupBy(facts, (one) => jobName(one) ?? String(one.pid))].map(([key, members]) => {
    const live = members.filter(({ state }) => state !== "ended");
    const first = live[0] ?? members[0];
    return { key, name: jobName(first), members, live, first, size: first.job?.world_size ?? null };
  });
}

// Those that are about it.
export function findingsOf({ name, members }: Job, findings: Finding[]): Finding[] {
  const pids = new Set(members.map(({ pid }) => pid));
  return findings.filter(({ job, pids: about }) => (name !== null && job === name) || about.some((pid) => pids.has(pid)));
}

// Steps a second over time, of the process of the job that has most of them: ranks go in step. Times are bins
// of two seconds up to now, the one that is not over yet left out.
export function ratesOf({ members }: Job, rows: RateRow[], now = Date.now()): number[] {
  const own = members.map(({ pid }) => rows.filter((row) => row.pid === pid));
  const traced = own.map((list) => (list.some((row) => row.traced) ? list.filter((row) => row.traced) : list));
  const most = traced.reduce((best, list) => (list.length > best.length ? list : best), []);
  if (most.length === 0) return [];
  const at = new Map(most.map((row) => [Number(row.bin), Number(row.rate)]));
  const last = Math.floor(now / 1000 / BIN_S) * BIN_S - BIN_S;
  const first = Math.max(Number(most[0].bin), last - RATE_SECONDS);
  const rates = [];
  for (let time = first; time <= last; time += BIN_S) rates.push(at.get(time) ?? 0);
  return rates;
}

// Of the last ten seconds.
export function rateNow(rates: number[]): number | null {
  const recent = rates.slice(-5);
  return recent.length === 0 ? null : recent.reduce((sum, rate) => sum + rate, 0) / recent.length;
}
