// Charts of what is measured over time: one query each, its numeric columns are the lines.
import { chartable, toLines } from "../lib/cells";
import { h } from "../lib/dom";
import { chooseRange } from "../lib/state";
import { followQueries } from "../lib/stream";
import { Chart } from "./chart";
import type { Place } from "./states";
import type { Rows } from "../types/api";
import type { FollowQueries, Hear } from "../types/page";
import type { SeriesSpec } from "../types/tables";

const SECONDS = 1; // as often there are new rows
/**
 * `sql` has {since} where the condition on the time goes. Its first column is `timestamp`; a text
 * column splits the rows into lines. With no target each number is split by process.
 */
export class Series {
  result: Rows | null = null;

  sql: string;
  names: Record<string, string>;
  chart: Chart;
  node: HTMLElement;

  constructor({ title, sql, unit = "", min = 0, max, stacked, names = {}, height = 170 }: SeriesSpec) {
    this.sql = sql;
    this.names = names;
    this.chart = new Chart({
      title,
      height,
      min,
      max,
      stacked,
      unit,
      brushed: chooseRange,
    });
    this.node = h("section", { class: "card", hidden: true }, this.chart.node);
  }

  sqlOf(when: string) {
    return this.sql.replaceAll("{since}", when);
  }

  // The same rows again are drawn once.
  set(result: Rows) {
    if (this.result === result) return;
    this.result = result;
    const { columns, rows } = result;
    const how = chartable(columns, rows);
    if (how?.kind !== "lines") {
      this.node.hidden = true;
      return;
    }
    const { xs, series } = toLines(
      rows,
      how,
      how.ys.filter(({ i }) => rows.some((row) => row[i] !== null)),
    );
    this.node.hidden = series.length === 0;
    this.chart.set(
      xs,
      series.map(({ label, values }) => ({ label: this.names[label] ?? label.replaceAll("_", " "), values })),
    );
  }

  destroy() {
    this.chart.destroy();
  }
}

// Several at once over one connection; the signal takes them away. A table that cannot be read fails the
// whole, with its reason.
export class SeriesBoard {
  signal: AbortSignal;
  series: Series[];
  node: HTMLDivElement;

  constructor(specs: SeriesSpec[], signal: AbortSignal) {
    this.signal = signal;
    this.series = specs.map((spec) => new Series(spec));
    this.node = h(
      "div",
      { class: "cards" },
      this.series.map(({ node }) => node),
    );
    signal.addEventListener("abort", () => this.series.forEach((one) => one.destroy()));
  }

  // `when` is a condition (lib/range.ts); `shown` hears whether there is anything to see.
  follow({
    target,
    when,
    shown,
    place,
  }: {
    target: number | null;
    when: string;
    shown?: Hear<boolean>;
    place: Place;
  }) {
    if (this.series.length === 0) return;
    const queries = () => Object.fromEntries(this.series.map((one, i) => [i, one.sqlOf(when)]));
    const heard: FollowQueries["heard"] = (results) => {
      this.series.forEach((one, i) => one.set(results[i]));
      shown?.(this.series.some(({ node }) => !node.hidden));
    };
    const failed: FollowQueries["failed"] = (error) => place.fail(error);
    followQueries(queries, { target, seconds: SECONDS, signal: this.signal, heard, failed });
  }
}
