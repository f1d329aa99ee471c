// The processes probingd knows: it tells whenever they change, while the page is seen.
import { get } from "./api";
import { follow } from "./stream";
import type { Target } from "../types/api";
import type { Failure } from "../types/page";

const SECONDS = 1; // as often the server looks

class Targets extends EventTarget {
  list: Target[] | null = null; // not known yet
  error: Failure | null = null;

  again = () => {}; // asks at once

  start() {
    this.again = follow(() => ({ interval: String(SECONDS) }), {
      signal: new AbortController().signal,
      hears: { targets: ({ targets: list }) => this.changed({ list }) },
      failed: (error) => this.changed({ error }),
    });
  }

  async refresh() {
    const { targets } = await get("targets");
    this.changed({ list: targets });
  }

  changed(change: { list?: Target[]; error?: Failure | null }) {
    const before = JSON.stringify([this.list, this.error?.message]);
    Object.assign(this, change);
    if (JSON.stringify([this.list, this.error?.message]) !== before) this.dispatchEvent(new Event("change"));
  }

  get live() {
    return (this.list ?? []).filter(({ state }) => state !== "ended");
  }

  find(pid: number) {
    return (this.list ?? []).find((target) => target.pid === pid) ?? null;
  }
}

export const targets = new Targets();

// Of a rank; null for what belongs to no job.
export function jobName({ job }: Target): string | null {
  return job?.rank === null || job?.rank === undefined ? null : job.name;
}

// "python train.py --lr 0.1" without the path of the interpreter.
export function shortCommand(command: string) {
  const words = command.split(" ");
  words[0] = words[0].slice(words[0].lastIndexOf("/") + 1);
  return words.map((word) => (word.startsWith("/") ? word.slice(word.lastIndexOf("/") + 1) : word)).join(" ");
}
