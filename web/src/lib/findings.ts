// Findings of the diagnosis: which job they are about, and which page answers them. Pure.
import { groupBy } from "./cells";
import type { Finding } from "../types/api";
import type { Changes } from "../types/page";

// Page and what its address says beside the target. Classes that are not here are answered by Stacks.
const PAGES: Record<string, [page: string, more?: Changes]> = {
  collective_hang: ["cluster"],
  collective_mismatch: ["cluster"],
  straggler: ["cluster", { metric: "duration" }],
  slow_network: ["cluster", { metric: "waiting" }],
  data_stall: ["training"],
  nan: ["training"],
  memory_growth: ["memory"],
  device_memory_growth: ["memory"],
  slow_checkpoint: ["timeline"],
  gc_pause: ["timeline"],
  cpu_contention: ["system"],
  first_death: ["overview"],
  gpu_idle: ["profile"],
  exposed_communication: ["profile"],
  gpu_fault: ["system"],
  gpu_throttled: ["system"],
  slow_rdma: ["system"],
  recompilation: ["query", { q: "SELECT * FROM python.recompiles ORDER BY timestamp DESC" }],
};

// Pages about all ranks get the job, the others the first process that it is about.
export function answerOf({ class: name, pids, job }: Finding): { page: string; params: Changes } {
  const [page, more = {}] = PAGES[name] ?? ["stacks"];
  if (page === "cluster") return { page, params: job ? { ...more, job } : more };
  return { page, params: pids[0] === undefined ? more : { ...more, target: pids[0] } };
}

// The same trouble of several ranks is one: it is said of the first.
export function mergeAlike(findings: Finding[]): Finding[] {
  const unique = (list: number[]) => [...new Set(list)].sort((a, b) => a - b);
  const alike = groupBy(findings, ({ class: name, severity, job }) => `${name} ${severity} ${job}`);
  return [...alike.values()].map((list) => ({
    ...list[0],
    ranks: unique(list.flatMap(({ ranks }) => ranks)),
    pids: list.flatMap(({ pids }) => pids),
  }));
}

const HANGS = /hang|mismatch|deadlock/;

export interface Verdict {
  kind: "bad" | "warn" | "good" | "";
  text: string;
}

// In a word. `findings` are those about it, null as long as nobody has looked.
export function verdict(findings: Finding[] | null, live: number): Verdict {
  if (live === 0) return { kind: "", text: "Ended" };
  if (findings === null) return { kind: "", text: "Checking" };
  const worst = findings.find(({ severity }) => severity === "error");
  if (worst) return { kind: "bad", text: HANGS.test(worst.class) ? "Hung" : "In trouble" };
  if (findings.length > 0) return { kind: "warn", text: "Slowed down" };
  return { kind: "good", text: "Healthy" };
}
