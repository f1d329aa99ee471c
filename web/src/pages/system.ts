// What the machine gives the process: CPU, memory, storage, network, GPUs, and who else wants it.
import { records } from "../lib/api";
import { fill, h } from "../lib/dom";
import { integer, percent } from "../lib/format";
import { within } from "../lib/range";
import { plainTable } from "../parts/plain_table";
import { SeriesBoard } from "../parts/series";
import { card, empty, Place } from "../parts/states";
import type { PageContext } from "../types/page";
import type { PlainColumn, SeriesSpec } from "../types/tables";
import type { ThreadRow } from "../types/targets";

const EVERY_MS = 2000;

// `many` is asked without a target: a line for each process.
const SPECS: (Omit<SeriesSpec, "sql"> & { one: string; many?: string })[] = [
  {
    title: "CPU, % of one core",
    unit: "%",
    one: "SELECT timestamp, cpu_percent, user_percent, system_percent, children_percent FROM system.cpu",
    many: "SELECT timestamp, coalesce('rank ' || rank, pid::VARCHAR) AS who, cpu_percent FROM system.cpu",
    names: {
      cpu_percent: "process",
      user_percent: "own code",
      system_percent: "kernel",
      children_percent: "children",
    },
  },
  {
    title: "Memory of the process",
    unit: "bytes",
    one: "SELECT timestamp, rss, shared, swap, children_rss, cgroup_limit FROM system.memory",
    many: "SELECT timestamp, coalesce('rank ' || rank, pid::VARCHAR) AS who, rss FROM system.memory",
    names: { rss: "resident", children_rss: "children", cgroup_limit: "limit" },
  },
  {
    title: "Host: CPU of all cores",
    unit: "%",
    max: 100,
    one: "SELECT timestamp, host_percent AS host FROM system.cpu",
  },
  {
    title: "Host: memory",
    unit: "bytes",
    one: "SELECT timestamp, host_used AS used, host_available AS available FROM system.memory",
  },
  {
    title: "Storage",
    unit: "bytes/s",
    one: "SELECT timestamp, read_rate AS read, write_rate AS written FROM system.io",
    many: "SELECT timestamp, coalesce('rank ' || rank, pid::VARCHAR) AS who, coalesce(read_rate, 0) + coalesce(write_rate, 0) AS rate FROM system.io",
  },
  {
    title: "Network of the target's interfaces",
    unit: "bytes/s",
    one: "SELECT timestamp, interface, receive_rate AS received, send_rate AS sent FROM system.network",
  },
  {
    title: "GPU: time in kernels",
    unit: "%",
    max: 100,
    one: "SELECT timestamp, device::VARCHAR AS device, util_percent FROM system.gpu",
  },
  {
    title: "GPU: memory",
    unit: "bytes",
    one: "SELECT timestamp, device::VARCHAR AS device, memory_used, process_memory FROM system.gpu",
  },
  {
    title: "Context switches in each interval",
    one: "SELECT timestamp, voluntary_switches AS gave_up, involuntary_switches AS taken_away FROM system.cpu",
    many: "SELECT timestamp, coalesce('rank ' || rank, pid::VARCHAR) AS who, involuntary_switches FROM system.cpu",
  },
  {
    title: "Python: objects the collector tracks",
    one: "SELECT timestamp, gc_objects AS objects FROM python.memory",
    many: "SELECT timestamp, coalesce('rank ' || rank, pid::VARCHAR) AS who, gc_objects AS objects FROM python.memory",
  },
];

const THREADS = `SELECT tid, arg_max(name, timestamp) AS name, arg_max(state, timestamp) AS state,
  avg(cpu_percent) AS cpu, arg_max(core, timestamp) AS core, arg_max(wait_channel, timestamp) AS waits,
  sum(involuntary_switches) AS taken_away FROM system.threads
  WHERE timestamp > now() - interval '10 seconds' GROUP BY tid ORDER BY cpu DESC LIMIT 40`;

export function mount({ root, target, job, range, signal, live }: PageContext) {
  const specs = SPECS.map(({ one, many, ...spec }) => {
    const sql = target || !many ? one : many;
    return { ...spec, sql: `${sql} WHERE {since} ORDER BY timestamp` };
  });
  const place = new Place();
  const board = new SeriesBoard(specs, signal);
  const threads = h("div", {});
  const body = h("div", { class: "page" }, board.node, threads);
  fill(root, place.node);

  const shown = (some: boolean) => place.show(some ? body : nothing(target));
  board.follow({ target, when: within(range, job), shown, place });
  if (!target) return;
  live(async () => fill(threads, threadTable(await records(THREADS, { target, signal }))), EVERY_MS, place);
}

const nothing = (() => {
  let node: HTMLElement | null = null;
  return (target: number | null) => {
    node ??= empty(
      "No measurements yet",
      target
        ? "Series are written about processes with a probe, once a second. Enter this one:"
        : "Series are written about processes with a probe, once a second.",
      [`probing -t ${target ?? "<pid>"} inject`],
    );
    return node;
  };
})();

function threadTable(list: ThreadRow[]) {
  if (list.length === 0) return null;
  const columns: PlainColumn[] = [
    ["Thread"],
    ["State"],
    ["CPU", "number"],
    ["Core", "number"],
    ["Waits in", "mono"],
    ["CPU taken away", "number"],
  ];
  const rows = list.map(({ tid, name, state, cpu, core, waits, taken_away: taken }) => [
    [`${name ?? ""} `, h("span", { class: "quiet-text" }, String(tid))],
    state ?? "–",
    percent(cpu),
    integer(core),
    state === "running" ? "–" : (waits ?? "–"),
    integer(Number(taken)),
  ]);
  return card("Threads in the last 10 seconds", plainTable(columns, rows));
}
