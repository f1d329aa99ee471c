// Modules of a model: a map whose areas are times, and a table of the same.
import { fill, h, seriesVariable } from "../lib/dom";
import { integer, number, seconds } from "../lib/format";
import { treemap } from "../lib/treemap";
import { plainTable } from "./plain_table";
import type { PlainColumn } from "../types/tables";
import type { Module } from "../types/training";

const HEIGHT = 220;
const MOST_ROWS = 200;

export class ModuleMap {
  entries: (Pick<Module, "module" | "type"> & { value: number })[] = [];

  node: HTMLDivElement;

  constructor() {
    this.node = h("div", {
      class: "treemap",
      role: "img",
      "aria-label": "time by module",
      style: { height: `${HEIGHT}px` },
    });
    new ResizeObserver(() => this.draw()).observe(this.node);
  }

  set(modules: Module[]) {
    this.entries = modules.map(({ module, type, total }) => ({ module, type, value: total }));
    this.draw();
  }

  draw() {
    this.node.hidden = this.entries.length < 2;
    const width = this.node.clientWidth;
    if (width === 0) return;
    const all = this.entries.reduce((sum, { value }) => sum + value, 0);
    const types = [...new Set(this.entries.map(({ type }) => type))].sort();
    fill(
      this.node,
      treemap(this.entries, width, HEIGHT).map(({ entry, x, y, w, h: height }) =>
        h(
          "div",
          {
            class: "treemap-box",
            title: `${entry.module} (${entry.type}): ${seconds(entry.value / 1000)}, ${((100 * entry.value) / all).toFixed(1)} %`,
            style: {
              left: `${x}px`,
              top: `${y}px`,
              width: `${Math.max(w - 1, 1)}px`,
              height: `${Math.max(height - 1, 1)}px`,
              "--own": `var(${seriesVariable(types.indexOf(entry.type))})`,
            },
          },
          w > 46 && height > 18 ? entry.module : "",
        ),
      ),
    );
  }
}

const NUMBERS = ["Calls", "Forward", "Backward", "Optimizer", "In all", "GPU peak"];
const COLUMNS: PlainColumn[] = [
  ["Module", "mono"],
  ["Class", "quiet-text"],
  ...NUMBERS.map((name) => [name, "number"] as const),
];

export function moduleTable(modules: Module[]) {
  const ms = (value: number | null | undefined) =>
    value === undefined || value === null ? "–" : seconds(value / 1000);
  const rows = modules
    .slice(0, MOST_ROWS)
    .map(({ module, type, calls, stages, total, peak }) => [
      module || "(the whole model)",
      type,
      integer(calls),
      ms(stages.forward),
      ms(stages.backward),
      ms(stages.step),
      ms(total),
      peak === null ? "–" : `${number(peak)} MB`,
    ]);
  return plainTable(COLUMNS, rows, "modules");
}
