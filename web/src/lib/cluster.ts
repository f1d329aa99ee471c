// All ranks of the job, on all hosts that probingd knows: what is asked, and what is made of it.
import { bytes, integer, percent, seconds, shortFile } from "./format";
import type { ClusterRows, HeatField, OfJob, RankMetric, RankRow, RankStep, SlowestRow } from "../types/targets";

// What can colour the grid.
export const METRICS: RankMetric[] = [
  { name: "duration", title: "Time of a step", format: seconds },
  { name: "waiting", title: "Time in collectives, of a step", format: seconds },
  { name: "data_wait", title: "Time for data, of a step", format: seconds },
  { name: "step", title: "Step", format: integer },
  { name: "cpu", title: "CPU", format: percent },
  { name: "rss", title: "Memory", format: bytes },
];

// Of jobs that run also the ranks that have ended; jobs that are over are shown when there is no other.
const RANKS_SQL = `WITH steps AS (
    SELECT host, pid, max(step) AS step, avg(duration) AS duration, avg(data_wait) AS data_wait, count(*) AS n
    FROM global.python.torch_steps
    WHERE timestamp > now() - interval '30 seconds' AND phase IS DISTINCT FROM 'validate' GROUP BY host, pid),
  waits AS (
    SELECT host, pid, sum(duration_ms) / 1e3 AS waited
    FROM global.python.collectives WHERE timestamp > now() - interval '30 seconds' GROUP BY host, pid),
  cpu AS (
    SELECT host, pid, avg(cpu_percent) AS cpu
    FROM global.system.cpu WHERE timestamp > now() - interval '10 seconds' GROUP BY host, pid),
  memory AS (
    SELECT host, pid, arg_max(rss, timestamp) AS rss
    FROM global.system.memory WHERE timestamp > now() - interval '10 seconds' GROUP BY host, pid)
  SELECT t.host, t.pid, t.rank, t.state, t.job, step, duration, data_wait, waited / n AS waiting, cpu, rss
  FROM global.probing.targets AS t LEFT JOIN steps USING (host, pid) LEFT JOIN waits USING (host, pid)
    LEFT JOIN cpu USING (host, pid) LEFT JOIN memory USING (host, pid)
  WHERE t.job_role = 'rank'
  QUALIFY bool_or(t.state <> 'ended') OVER (PARTITION BY t.job) OR NOT bool_or(t.state <> 'ended') OVER ()
  ORDER BY t.job, t.rank, t.pid`;

const STACKS_SQL = `SELECT processes, ranks, innermost, stack, job FROM global.cluster.stacks
  ORDER BY processes DESC, pid`;

const HEAT_SQL = `SELECT job, rank, step, duration FROM global.python.torch_steps
  WHERE timestamp > now() - interval '10 minutes' AND rank IS NOT NULL AND phase IS DISTINCT FROM 'validate'
  QUALIFY step > max(step) OVER (PARTITION BY job) - 200 ORDER BY rank, step`;

// Who is waited for waits least: the time of a step without what it spent in collectives is a rank's own.
const SLOWEST_SQL = `WITH waits AS (
    SELECT host, pid, step, sum(duration_ms) / 1e3 AS waited FROM global.python.collectives
    WHERE timestamp > now() - interval '10 minutes' GROUP BY host, pid, step),
  own AS (
    SELECT s.job, s.rank, s.step, greatest(s.duration - coalesce(w.waited, 0), 0) AS own
    FROM global.python.torch_steps AS s LEFT JOIN waits AS w USING (host, pid, step)
    WHERE s.timestamp > now() - interval '10 minutes' AND s.rank IS NOT NULL AND s.phase IS DISTINCT FROM 'validate')
  SELECT job, step, arg_max(rank, own) AS rank, max(own) AS slowest, median(own) AS middle
  FROM own GROUP BY job, step HAVING count(*) > 1
  QUALIFY step > max(step) OVER (PARTITION BY job) - 200 ORDER BY step`;

export const QUERIES = { ranks: RANKS_SQL, stacks: STACKS_SQL, steps: HEAT_SQL, slowest: SLOWEST_SQL };

// The jobs that have ranks here, those that run first.
export function jobsOf(ranks: RankRow[]): string[] {
  const live = ranks.filter(({ state }) => state !== "ended");
  return [...new Set([...live, ...ranks].map(({ job }) => job ?? ""))];
}

// What is about one job.
export function ofJob({ ranks, stacks, steps, slowest }: ClusterRows, job: string): ClusterRows {
  const isOfIt = (row: OfJob) => (row.job ?? "") === job;
  return {
    ranks: ranks.filter(isOfIt),
    stacks: stacks.filter(isOfIt),
    steps: steps.filter(isOfIt),
    slowest: slowest.filter(isOfIt),
  };
}

// Who was the slowest most often: [{rank, steps}], the most first.
export function slowestOften(rows: Omit<SlowestRow, "job">[]): { rank: number; steps: number }[] {
  const counts = new Map<number, number>();
  for (const { rank } of rows) counts.set(rank, (counts.get(rank) ?? 0) + 1);
  return [...counts].map(([rank, steps]) => ({ rank, steps })).sort((a, b) => b.steps - a.steps);
}

const LIBRARY = /\/(site|dist)-packages\/|\/lib\/python3[^/]*\/|\(<frozen/;

// The lines of a stack, the innermost first, without functions of ours and with short names of files; and the innermost
// one of the program itself, where there is one.
export function readableStack(stack: string): { place: string; text: string } {
  const short = (line: string) => line.replace(/\((\/[^()]*)\)$/, (_all, file: string) => `(${shortFile(file)})`);
  const lines = stack.split("\n").filter((line) => line.trim() !== "" && !line.includes("(<libprobing>"));
  const own = lines.find((line) => !LIBRARY.test(line)) ?? lines[0] ?? "no Python code";
  return { place: short(own.trim()), text: lines.map(short).join("\n") };
}

// [0, 1, 2, 5] → "0–2, 5"
export function ranges(numbers: number[]) {
  const parts = [];
  for (let i = 0; i < numbers.length;) {
    let last = i;
    while (numbers[last + 1] === numbers[last] + 1) last += 1;
    parts.push(last === i ? `${numbers[i]}` : `${numbers[i]}–${numbers[last]}`);
    i = last + 1;
  }
  return parts.join(", ");
}

// Where values lie between the least and the most: 0 to 1. Nothing differs where all are nearly the same, so
// that noise is not painted as news.
export function heat(values: (number | null)[]): (number | null)[] {
  const known = values.filter((value) => typeof value === "number");
  const low = Math.min(...known);
  const high = Math.max(...known);
  const most = Math.max(Math.abs(low), Math.abs(high));
  const flat = high - low < 0.02 * most;
  return values.map((value) => {
    if (typeof value !== "number") return null;
    return flat ? 0 : (value - low) / (high - low);
  });
}

// Rows of HEAT_SQL as a field of heats, with a row for each rank.
export function heatField(rows: Omit<RankStep, "job">[]): HeatField {
  const ranks = [...new Set(rows.map(({ rank }) => rank))];
  const steps = [...new Set(rows.map(({ step }) => step))].sort((a, b) => a - b);
  const heats = heat(rows.map(({ duration }) => duration));
  const cells: HeatField["cells"] = ranks.map(() => steps.map(() => null));
  const row = new Map(ranks.map((rank, i) => [rank, i]));
  const column = new Map(steps.map((step, i) => [step, i]));
  rows.forEach(({ rank, step }, i) => {
    const [y, x] = [row.get(rank), column.get(step)];
    if (x !== undefined && y !== undefined) cells[y][x] = heats[i];
  });
  const known = rows.flatMap(({ duration }) => (typeof duration === "number" ? [duration] : []));
  const [low, high] = known.reduce(([a, b], one) => [Math.min(a, one), Math.max(b, one)], [Infinity, -Infinity]);
  return { ranks, steps, cells, low, high };
}
