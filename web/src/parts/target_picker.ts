// Which process the page is about: one of those that are probed, all of them, or any pid.
import { fill, h } from "../lib/dom";
import { shortCommand, targets } from "../lib/targets";
import type { Option } from "../types/page";

export class TargetPicker {
  target: number | null = null;
  isNeeded: boolean | undefined = false;
  shown = "";

  choose: (pid: number | null) => void;
  select: HTMLSelectElement;
  input: HTMLInputElement;
  node: HTMLDivElement;

  constructor(choose: (pid: number | null) => void) {
    this.choose = choose;
    this.select = h("select", { "aria-label": "Target", onchange: () => this.selected() });
    this.input = h("input", {
      type: "text",
      inputmode: "numeric",
      pattern: "[0-9]+",
      placeholder: "pid",
      "aria-label": "pid of another process",
      hidden: true,
      onchange: () => this.typed(),
    });
    this.node = h("div", { class: "target-picker" }, this.select, this.input);
  }

  show(target: number | null, isNeeded?: boolean): void {
    this.target = target;
    this.isNeeded = isNeeded;
    this.input.hidden = true;
    this.shown = "";
    this.update();
  }

  update() {
    const options: Option[] = (targets.list ?? []).map(({ pid, command, state }) => {
      const name = `${pid}  ${shortCommand(command).slice(0, 60)}${state === "live" ? "" : `  (${state})`}`;
      return [String(pid), name];
    });
    if (this.target && !options.some(([pid]) => pid === String(this.target))) {
      options.push([String(this.target), `${this.target}  (not probed)`]);
    }
    if (!this.isNeeded) options.unshift(["", "All targets"]);
    else if (!this.target) options.unshift(["", "Choose a target"]);
    options.push(["other", "Another pid…"]);
    // A list that somebody has open must not be built anew for nothing.
    const text = JSON.stringify([options, this.target]);
    if (text === this.shown) return;
    this.shown = text;
    fill(
      this.select,
      options.map(([value, name]) => h("option", { value }, name)),
    );
    this.select.value = this.target ? String(this.target) : "";
  }

  selected() {
    if (this.select.value === "other") {
      this.input.hidden = false;
      this.input.value = "";
      this.input.focus();
    } else {
      this.choose(Number(this.select.value) || null);
    }
  }

  typed() {
    const pid = Number(this.input.value.trim());
    if (Number.isInteger(pid) && pid > 0) this.choose(pid);
  }
}
