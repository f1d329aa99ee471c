// The rows of a query as lines over time or steps, or as bars; which numbers are drawn can be chosen.
import { cellText, chartable, plotNumber, toLines } from "../lib/cells";
import { fill, h } from "../lib/dom";
import { bars } from "./bars";
import { Chart } from "./chart";
import { check } from "./controls";
import { empty } from "./states";
import type { Rows } from "../types/api";
import type { ColumnAt, LineChart } from "../types/tables";

const MOST_BARS = 60;

export class ResultChart {
  result: Rows = { columns: [], rows: [] };
  hidden: Set<string> = new Set(); // names of columns
  chart: Chart | null = null;

  choices: HTMLDivElement;
  area: HTMLDivElement;
  node: HTMLDivElement;

  constructor(signal: AbortSignal) {
    this.choices = h("div", { class: "toolbar" });
    this.area = h("div", {});
    this.node = h("div", { class: "card" }, this.choices, this.area);
    signal.addEventListener("abort", () => this.chart?.destroy());
  }

  set(result: Rows) {
    this.result = result;
    const how = chartable(result.columns, result.rows);
    if (!how) {
      fill(this.choices);
      fill(
        this.area,
        empty("Nothing to draw", "A chart needs rows with a number, and a time, a step or a text beside it."),
      );
      return;
    }
    fill(
      this.choices,
      how.ys.map(
        ({ name }) =>
          check(name, !this.hidden.has(name), (on) => {
            if (on) this.hidden.delete(name);
            else this.hidden.add(name);
            this.set(this.result);
          }).node,
      ),
    );
    const ys = how.ys.filter(({ name }) => !this.hidden.has(name));
    if (how.kind === "bars") this.drawBars(how.label, ys);
    else this.drawLines(how, ys);
  }

  drawBars(label: ColumnAt, [y]: ColumnAt[]) {
    if (!y) return fill(this.area);
    const entries = this.result.rows
      .slice(0, MOST_BARS)
      .map((row) => ({ label: cellText(row[label.i]), value: plotNumber(row[y.i]) ?? 0 }));
    fill(this.area, h("h2", {}, y.name), bars(entries));
  }

  drawLines(how: LineChart, ys: ColumnAt[]): void {
    if (!this.chart || this.chart.options.time !== how.isTime) {
      this.chart?.destroy();
      this.chart = new Chart({ height: 360, time: how.isTime });
    }
    if (this.area.firstChild !== this.chart.node) fill(this.area, this.chart.node);
    const { xs, series } = toLines(this.result.rows, how, ys);
    this.chart.set(xs, series);
  }
}
