// Lines over time (uPlot). A chart is made once; new data is put into it, and a zoom stays.
import { cssColour, fill, h, seriesVariable, setText } from "../lib/dom";
import { clock, number } from "../lib/format";
import type uPlot from "uplot";
import type { ChartOptions, Line } from "../types/tables";

const NEAR = 20; // rows
const charts: Set<Chart> = new Set();

// Round numbers of bytes, KB, MB…
export const BYTE_STEPS = [0, 1, 2, 3, 4].flatMap((power) =>
  [1, 2, 4, 8, 16, 32, 64, 128, 256, 512].map((count) => count * 1024 ** power),
);

// uPlot comes with the first chart: what needs none does not wait for it.
let Plot: typeof uPlot | null = null;
let asked = false;

async function fetchPlotter() {
  if (asked) return;
  asked = true;
  Plot = (await import("uplot")).default;
  redrawCharts();
}

// Canvases do not hear of a new theme by themselves.
function redrawCharts() {
  for (const chart of charts) chart.rebuild();
}
window.addEventListener("themechange", redrawCharts);

export class Chart {
  xs: number[] = [];
  series: Line[] = [];
  labels: string | null = null; // of the series; null before there is data
  plot: uPlot | null = null;
  entries: { node: HTMLElement; value: HTMLElement }[] = []; // of the legend
  when = h("span", { class: "legend-when" });
  width = 0;

  options: ChartOptions & Required<Pick<ChartOptions, "height" | "format" | "time">>;
  area: HTMLDivElement;
  legend: HTMLDivElement;
  node: HTMLElement;
  observer: ResizeObserver;

  constructor(options: ChartOptions = {}) {
    this.options = { height: 180, format: number, time: true, ...options };
    this.area = h("div", { class: "chart-area" });
    this.area.style.minHeight = `${this.options.height}px`;
    this.legend = h("div", { class: "legend" });
    this.node = h("figure", { class: "chart" }, this.area, this.legend);
    if (options.title) this.node.prepend(h("figcaption", {}, options.title));
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.area);
    charts.add(this);
    void fetchPlotter();
  }

  // xs in seconds since the epoch when it is a time; series: [{label, values}].
  set(xs: number[], series: Line[]): void {
    this.xs = xs;
    this.series = series;
    const labels = series.map(({ label }) => label).join("\n");
    if (this.plot && labels === this.labels) {
      const zoomed = this.isZoomed(this.plot);
      this.plot.setData(this.data(), !zoomed);
      if (zoomed) this.plot.redraw();
    } else {
      this.labels = labels;
      this.rebuild();
      this.makeLegend();
    }
    this.node.dataset.points = String(xs.length);
    this.drawLegend(null);
  }

  // What is under the cursor, or the latest; a click hides a line.
  makeLegend() {
    this.entries = this.series.map(({ label }, i) => {
      const value = h("b", {});
      const parts = [h("i", { style: { background: `var(${seriesVariable(i)})` } }), label, value];
      const node = this.options.stacked
        ? h("span", { class: "legend-entry" }, parts)
        : h(
            "button",
            { class: "legend-entry", type: "button", "aria-pressed": "true", onclick: () => this.toggle(i) },
            parts,
          );
      return { node, value };
    });
    fill(
      this.legend,
      this.entries.map(({ node }) => node),
      this.when,
    );
  }

  drawLegend(at: number | null | undefined) {
    const row = at ?? this.xs.length - 1;
    this.entries.forEach(({ value }, i) => setText(value, this.options.format(this.valueAt(i, row))));
    setText(this.when, at === null || at === undefined ? "" : this.whenText(row));
  }

  whenText(row: number) {
    return this.options.about?.(row) ?? this.xText(this.xs[row]);
  }

  // Lines that are measured at other moments have a gap there: the value before it.
  valueAt(i: number, row: number): number | null {
    const values = this.series[i]?.values ?? [];
    for (let at = row; at >= 0 && at > row - NEAR; at -= 1) {
      if (values[at] !== null && values[at] !== undefined) return values[at];
    }
    return null;
  }

  toggle(i: number) {
    const show = this.entries[i].node.getAttribute("aria-pressed") !== "true";
    this.entries[i].node.setAttribute("aria-pressed", String(show));
    this.plot?.setSeries(i + 1, { show });
  }

  xText(x: number) {
    return this.options.time ? clock(x * 1000) : number(x);
  }

  isZoomed(plot: uPlot) {
    const [old] = plot.data;
    const { min = -Infinity, max = Infinity } = plot.scales.x;
    return old.length > 1 && (min > old[0] || max < old[old.length - 1]);
  }

  // Stacked values are sums; they are drawn from the highest to the lowest, each over the last.
  data(): uPlot.AlignedData {
    if (!this.options.stacked) return [this.xs, ...this.series.map(({ values }) => values)];
    const sums: number[] = new Array(this.xs.length).fill(0);
    const layers = this.series.map(({ values }) => values.map((value, i) => (sums[i] += value ?? 0)));
    return [this.xs, ...layers.reverse()];
  }

  rebuild() {
    this.plot?.destroy();
    this.plot = null;
    if (this.labels === null || this.width === 0 || !Plot) return;
    this.plot = new Plot(this.plotOptions(), this.data(), this.area);
  }

  plotOptions(): uPlot.Options {
    const { format, height, stacked, time, min, max, steps } = this.options;
    const axis = {
      stroke: cssColour("--quiet"),
      grid: { stroke: cssColour("--grid"), width: 1 },
      ticks: { show: false },
    };
    const order = this.series.map((one, i) => ({ ...one, i }));
    const lines = (stacked ? order.reverse() : order).map(({ label, i }) => ({
      label,
      stroke: cssColour(seriesVariable(i)),
      fill: stacked ? cssColour(seriesVariable(i)) : undefined,
      width: stacked ? 0 : 1.5,
      points: { show: this.xs.length === 1 },
      spanGaps: true,
    }));
    return {
      width: this.width,
      height,
      series: [{}, ...lines],
      scales: { x: { time }, y: { range: (_plot, low, high) => this.range(low, high, min, max) } },
      axes: [
        { ...axis, size: 26, space: 80, values: (_plot, values) => values.map((x) => this.xText(x)) },
        { ...axis, size: 66, incrs: steps, values: (_plot, values) => values.map(format) },
      ],
      cursor: { y: false, points: { size: 6 } },
      hooks: { setCursor: [(plot) => this.drawLegend(plot.cursor.idx)] },
      legend: { show: false },
      padding: [8, 26, 0, 0],
    };
  }

  // Down to 0 unless that would hide what happens, as with a loss.
  range(low: number | null, high: number | null, min?: number, max?: number): [number, number] {
    if (low === null || high === null) return [0, 1];
    if (max !== undefined && low >= 0 && high <= max) return [min ?? 0, max];
    if (high - low <= 1e-9 * Math.abs(high))
      return high === 0 ? [0, 1] : [Math.min(0, 2 * low), Math.max(0, 2 * high)];
    const bottom = min ?? (low >= 0 && low < high / 2 ? 0 : low - (high - low) * 0.05);
    const top = Math.max(max ?? -Infinity, high + (high - bottom) * 0.06);
    return bottom === top ? [bottom, bottom + 1] : [bottom, top];
  }

  resize() {
    const width = Math.floor(this.area.clientWidth);
    if (width === 0 || width === this.width) return;
    this.width = width;
    if (this.plot) this.plot.setSize({ width, height: this.options.height });
    else this.rebuild();
  }

  destroy() {
    this.observer.disconnect();
    this.plot?.destroy();
    charts.delete(this);
  }
}

// Bars of one number for each label, the longest first.
export function bars(
  entries: { label: string; value: number }[],
  format: (value: number) => string = number,
): HTMLElement {
  const most = Math.max(...entries.map(({ value }) => Math.abs(value)), 0) || 1;
  const list = h("div", { class: "bars" });
  fill(
    list,
    entries.map(({ label, value }) =>
      h(
        "div",
        { class: "bar-row" },
        h("span", { class: "bar-label", title: label }, label),
        h(
          "span",
          { class: "bar-track" },
          h("span", { class: "bar", style: { width: `${(100 * Math.abs(value)) / most}%` } }),
        ),
        h("span", { class: "bar-value" }, format(value)),
      ),
    ),
  );
  return list;
}
