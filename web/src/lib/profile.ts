// The questions of the profile page, about the newest profile, and its events as a timeline. Pure.
import { placeEvents } from "./timeline";
import { groupBy } from "./cells";
import type { KernelRow, OpRow } from "../types/profile";
import type { Group, TimelineEvent, Track } from "../types/training";

const MOST = 20_000; // events that are drawn
const NEWEST = "profile = (SELECT max(profile) FROM python.torch_ops)";

export const PROFILE_QUERIES = {
  ops: `SELECT op, calls, self_us, total_us, mean_us, gpu_us FROM python.op_costs
    WHERE ${NEWEST} AND kind = 'op' ORDER BY self_us DESC LIMIT 60`,
  kernels: `SELECT name, any_value(op) AS op, sum(calls) AS calls, sum(total_us) AS total_us,
      sum(total_us) / sum(calls) AS mean_us, sum(share) AS share
    FROM gpu.kernel_costs WHERE ${NEWEST} GROUP BY name ORDER BY total_us DESC LIMIT 60`,
  used: `SELECT device, busy_us, idle_share, exposed_share, copy_us FROM gpu.utilization WHERE ${NEWEST} ORDER BY device`,
  path: `SELECT place, name, sum(path_us) AS path_us FROM python.critical_path WHERE ${NEWEST}
    GROUP BY ALL ORDER BY path_us DESC LIMIT 12`,
  opEvents: `SELECT op AS name, kind, thread, thread_name, timestamp_ns, duration_us, coalesce(module, shapes) AS detail
    FROM python.torch_ops WHERE ${NEWEST} ORDER BY timestamp_ns LIMIT ${MOST}`,
  gpuEvents: `SELECT name, kind, device, stream, op, timestamp_ns, duration_us
    FROM gpu.kernels WHERE ${NEWEST} ORDER BY timestamp_ns LIMIT ${MOST}`,
};

function eventOf(row: OpRow | KernelRow, kind: string, detail: string | null): TimelineEvent {
  const { name, timestamp_ns: at, duration_us: us } = row;
  return { name, kind, start: Number(at) / 1e6, ms: us / 1000, detail: detail ?? "", row: 0 };
}

// Threads of the CPU, and streams of each device.
export function groupsOfProfile(ops: OpRow[], kernels: KernelRow[]): Group[] {
  const track = (name: string, kind: string, events: TimelineEvent[]): Track => ({
    name,
    kind,
    ...placeEvents(events),
    points: [],
    unit: "",
  });
  const threads = [...groupBy(ops, ({ thread }) => thread)].map(([thread, rows]) =>
    track(
      `${rows[0].thread_name ?? "thread"} ${thread}`,
      "Modules",
      rows.map((row) => eventOf(row, row.kind === "op" ? "Modules" : row.kind === "runtime" ? "optimizer" : "Steps", row.detail)),
    ),
  );
  const devices = [...groupBy(kernels, ({ device }) => device)].map(([device, rows]) => ({
    name: `device ${device}`,
    tracks: [...groupBy(rows, ({ stream }) => stream)].map(([stream, own]) =>
      track(
        `stream ${stream}`,
        "forward",
        own.map((row) => eventOf(row, row.kind === "kernel" ? "forward" : "data_wait", row.op)),
      ),
    ),
  }));
  return [{ name: "CPU", tracks: threads }, ...devices];
}
