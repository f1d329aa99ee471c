// Modules of a model: a map whose areas are times, and a table of the same.
import { fill, h, seriesVariable } from "../lib/dom.js";
import { integer, number, seconds } from "../lib/format.js";
import { treemap } from "../lib/treemap.js";
import { plainTable } from "./plain_table.js";

const HEIGHT = 220;
const MOST_ROWS = 200;

export class ModuleMap {
  constructor() {
    this.node = h("div", {
      class: "treemap",
      role: "img",
      "aria-label": "time by module",
      style: { height: `${HEIGHT}px` },
    });
    this.entries = [];
    new ResizeObserver(() => this.draw()).observe(this.node);
  }

  set(modules) {
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

const COLUMNS = [
  ["Module", "mono"],
  ["Class", "quiet-text"],
  ...["Calls", "Forward", "Backward", "Optimizer", "In all", "GPU peak"].map((name) => [name, "number"]),
];

export function moduleTable(modules) {
  const ms = (value) => (value === undefined || value === null ? "–" : seconds(value / 1000));
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
