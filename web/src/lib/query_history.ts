// What was asked before, in this browser; entries that are kept stay on top.
import { remember, remembered } from "./state";
import type { Asked } from "../types/tables";

const MOST = 40;

const EXAMPLES = [
  [
    "Hottest operations",
    "SELECT operation_name, avg(duration_ms) AS avg_ms, count(*) AS calls\nFROM profiling_data\nWHERE timestamp > now() - interval '5 minutes'\nGROUP BY operation_name\nORDER BY avg_ms DESC\nLIMIT 20",
  ],
  [
    "Memory over time",
    "SELECT timestamp, rss_mb\nFROM memory_usage\nWHERE timestamp > now() - interval '5 minutes'\nORDER BY timestamp",
  ],
  [
    "Loss by epoch",
    "SELECT epoch, avg(loss), min(loss), count(*) AS steps\nFROM training_logs\nGROUP BY epoch\nORDER BY epoch",
  ],
  [
    "Threads by CPU",
    "SELECT name, avg(cpu_percent) AS cpu\nFROM system.threads\nWHERE timestamp > now() - interval '30 seconds'\nGROUP BY name\nORDER BY cpu DESC",
  ],
  [
    "Garbage collections",
    "SELECT timestamp, generation, duration_ms, collected\nFROM python.gc\nORDER BY timestamp DESC\nLIMIT 100",
  ],
];

export class History {
  entries: Asked[] = remembered("queries", []).filter(({ sql }) => typeof sql === "string");

  // Kept ones first, then the latest, then examples.
  all(): Asked[] {
    const kept = this.entries.filter(({ pinned }) => pinned);
    const rest = this.entries.filter(({ pinned }) => !pinned);
    return [...kept, ...rest, ...EXAMPLES.map(([title, sql]) => ({ title, sql, pinned: false }))];
  }

  latest() {
    return this.entries[0]?.sql ?? null;
  }

  add(sql: string) {
    const old = this.entries.find((entry) => entry.sql === sql);
    const others = this.entries.filter((entry) => entry !== old);
    return this.keep([{ sql, pinned: old?.pinned ?? false }, ...others]);
  }

  pin(sql: string) {
    return this.keep(
      this.entries.map((entry) => (entry.sql === sql ? { ...entry, pinned: !entry.pinned } : entry)),
    );
  }

  keep(entries: Asked[]) {
    let free = MOST;
    this.entries = entries.filter(({ pinned }) => pinned || free-- > 0);
    remember("queries", this.entries);
    return this.all();
  }
}
