// What the page is about: a job, one of its ranks, a process, or all of them.
import { fill, h } from "../lib/dom";
import { groupBy } from "../lib/cells";
import { jobName, shortCommand, targets } from "../lib/targets";
import type { Target } from "../types/api";
import type { Choosing, Scope } from "../types/page";

const [ALL, OTHER, JOB] = ["", "other", "job:"];

export class TargetPicker {
  private scope: Scope = { target: null, job: null };
  private isNeeded = false;
  private shown = "";

  private readonly choose: Choosing;
  private readonly select = h("select", { "aria-label": "Target", onchange: () => this.selected() });
  private readonly input = h("input", {
    type: "text",
    inputmode: "numeric",
    pattern: "[0-9]+",
    placeholder: "pid",
    "aria-label": "pid of another process",
    hidden: true,
    onchange: () => this.typed(),
  });
  readonly node = h("div", { class: "target-picker" }, this.select, this.input);

  constructor(choose: Choosing) {
    this.choose = choose;
  }

  show(scope: Scope, isNeeded = false): void {
    this.scope = scope;
    this.isNeeded = isNeeded;
    this.input.hidden = true;
    this.shown = "";
    this.update();
  }

  update() {
    const list = targets.list ?? [];
    const { target, job } = this.scope;
    // A list that somebody has open must not be built anew for nothing.
    const text = JSON.stringify([list, this.scope]);
    if (text === this.shown) return;
    this.shown = text;
    const option = (value: string, name: string) => h("option", { value }, name);
    const groups = [...groupBy(list, (one) => jobName(one) ?? "")].map(([name, members]) => {
      const options = members.map((one) => option(String(one.pid), processText(one)));
      if (name === "") return options;
      const whole = this.isNeeded ? [] : [option(JOB + name, `${name}: all ${members.length} ranks here`)];
      return h("optgroup", { label: `job ${name}` }, whole, options);
    });
    const isKnown = list.some(({ pid }) => pid === target);
    fill(
      this.select,
      !this.isNeeded ? option(ALL, "All jobs and processes") : target ? null : option(ALL, "Choose a process"),
      groups,
      target && !isKnown ? option(String(target), `${target}  (no probe)`) : null,
      job !== null && !list.some((one) => jobName(one) === job) ? option(JOB + job, `job ${job}`) : null,
      option(OTHER, "Another pid…"),
    );
    this.select.value = target ? String(target) : job !== null ? JOB + job : ALL;
  }

  private selected() {
    const { value } = this.select;
    if (value === OTHER) {
      this.input.hidden = false;
      this.input.value = "";
      this.input.focus();
    } else if (value.startsWith(JOB)) {
      this.choose({ target: null, job: value.slice(JOB.length) });
    } else {
      this.choose({ target: Number(value) || null, job: null });
    }
  }

  private typed() {
    const pid = Number(this.input.value.trim());
    if (Number.isInteger(pid) && pid > 0) this.choose({ target: pid, job: null });
  }
}

function processText({ pid, command, state, job }: Target): string {
  const rank = job?.rank === null || job?.rank === undefined ? "" : `rank ${job.rank}  `;
  return `${rank}${pid}  ${shortCommand(command).slice(0, 60)}${state === "live" ? "" : `  (${state})`}`;
}
