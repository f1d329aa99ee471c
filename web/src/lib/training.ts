// The questions of the training page, and what is made of the answers. Pure.
import { groupBy, sortByLabel } from "./cells";
import type { Lines } from "../types/tables";
import type { Module, ModuleRow, StepPart, StepRow, TrainingRows, ValueRow } from "../types/training";

const POINTS = 500; // more than a chart has pixels for says nothing more

// Rank 0 of two jobs is two processes.
const WHO =
  "CASE WHEN count(DISTINCT job) OVER () > 1 AND job IS NOT NULL THEN job || ' ' ELSE '' END || coalesce('rank ' || rank, 'pid ' || pid)";
// Averages are about one job: of several that are looked at, the one that wrote last.
const ONE_JOB = "coalesce(job, '') = (SELECT arg_max(coalesce(job, ''), timestamp) FROM python.torch_steps)";

// Steps in order, neighbours averaged when there are very many.
function stepsSql(when: string) {
  return `WITH parts AS (SELECT *, ntile(${POINTS}) OVER (ORDER BY timestamp) AS part FROM python.torch_steps WHERE phase IS DISTINCT FROM 'validate' AND ${when} AND ${ONE_JOB})
    SELECT any_value(job) AS job, max(step) AS step, max(timestamp_ns) / 1e9 AS time, count(*) AS steps, avg(duration) AS duration,
      avg(coalesce(data_wait, 0)) AS data_wait, avg(forward) AS forward, avg(backward) AS backward,
      avg(optimizer) AS optimizer, avg(overhead) AS overhead
    FROM parts GROUP BY part ORDER BY time`;
}

function ranksSql(when: string) {
  return `WITH parts AS (SELECT *, ${WHO} AS who,
      ntile(${POINTS}) OVER (PARTITION BY pid ORDER BY timestamp) AS part FROM python.torch_steps WHERE phase IS DISTINCT FROM 'validate' AND ${when})
    SELECT 'duration' AS name, who, max(step) AS step, max(timestamp_ns) / 1e9 AS time, avg(duration) AS value
    FROM parts GROUP BY who, part ORDER BY time`;
}

function modulesSql(when: string) {
  return `SELECT module, any_value(module_type) AS type, stage, count(*) AS calls, avg(duration_ms) AS mean_ms,
      sum(duration_ms) AS total_ms, max(max_allocated) AS peak_mb
    FROM python.torch_trace WHERE ${when} AND ${ONE_JOB} GROUP BY module, stage ORDER BY total_ms DESC LIMIT 1000`;
}

// Values by name, process and step; those without a step by time.
function valuesSql(table: string, value: string, when: string): string {
  return `WITH parts AS (SELECT name, ${WHO} AS who, step, timestamp_ns / 1e9 AS time, ${value} AS value,
      ntile(${POINTS}) OVER (PARTITION BY name, pid ORDER BY timestamp) AS part
      FROM ${table} WHERE ${value} IS NOT NULL AND ${when})
    SELECT name, who, max(step) AS step, max(time) AS time, avg(value) AS value
    FROM parts GROUP BY name, who, part ORDER BY time`;
}

// `when` is a condition on the time (lib/range.ts).
export function trainingQueries(target: number | null, when: string): Record<string, string> {
  return {
    steps: stepsSql(when),
    ...(target ? {} : { ranks: ranksSql(when) }),
    modules: modulesSql(when),
    metrics: valuesSql("python.metrics", "value", when),
    variables: valuesSql("python.variables", "number", when),
  };
}

// Of the rows of each of these queries.
export function trainingOf({ steps, ranks = [], modules, metrics, variables }: TrainingRows) {
  const byRank = byName(ranks).get("duration");
  return {
    steps,
    ranks: byRank && byRank.series.length > 1 ? byRank : null,
    modules: mergeStages(modules),
    values: byName([...metrics, ...variables]),
  };
}

export const SPLIT: StepPart[] = ["data_wait", "forward", "backward", "optimizer"];

// What is left of a step when its known parts are taken away; never below 0, whatever clocks say.
export function otherPart(step: StepRow) {
  const known = SPLIT.reduce((sum, part) => sum + (step[part] ?? 0), 0);
  return Math.max(0, (step.duration ?? 0) - known);
}

// One row for each module with its stages side by side; `total` is the time in all of them.
export function mergeStages(rows: ModuleRow[]): Module[] {
  const modules: Map<string | null, Module> = new Map();
  for (const { module, type, stage, calls, mean_ms: mean, total_ms: total, peak_mb: peak } of rows) {
    let entry = modules.get(module);
    if (!entry) modules.set(module, (entry = { module, type, calls: 0, total: 0, peak: null, stages: {} }));
    entry.stages[stage] = mean;
    entry.calls = Math.max(entry.calls, Number(calls));
    entry.total += total ?? 0;
    if (peak !== null) entry.peak = Math.max(entry.peak ?? 0, peak);
  }
  return [...modules.values()].sort((a, b) => b.total - a.total);
}

// Modules that contain no other that was traced: their times do not overlap.
export function leaves(modules: Module[]): Module[] {
  const parents: Set<string> = new Set();
  for (const { module } of modules) {
    const parts = (module ?? "").split(".");
    for (let i = 1; i < parts.length; i += 1) parents.add(parts.slice(0, i).join("."));
  }
  return modules.filter(({ module }) => module && !parents.has(module));
}

// Lines by name: by step when every row has one, a line for each process.
export function byName(rows: ValueRow[]): Map<string, Lines & { isTime: boolean }> {
  const made = [...groupBy(rows, ({ name }) => name)].map(([name, list]) => {
    const isTime = list.some(({ step }) => step === null);
    const at = ({ step, time }: ValueRow) => (isTime || step === null ? time : step);
    const xs = [...new Set(list.map(at))].sort((a, b) => a - b);
    const owners = [...groupBy(list, ({ who }) => who)];
    const series = owners.map(([who, own]) => {
      const points = new Map(own.map((row) => [at(row), row.value]));
      return { label: owners.length > 1 ? who : name, values: xs.map((x) => points.get(x) ?? null) };
    });
    return [name, { xs, series: sortByLabel(series), isTime }] as const;
  });
  return new Map(made);
}
