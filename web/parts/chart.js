// Lines over time (uPlot). A chart is made once; new data is put into it, and a zoom stays.
import { cssColour, fill, h, setText } from "../lib/dom.js";
import { number } from "../lib/format.js";

/* global uPlot */

const COLOURS = 8;
const charts = new Set();

export function seriesColour(i) {
  return cssColour(`--series-${i % COLOURS}`);
}

// Canvases do not hear of a new theme by themselves.
export function redrawCharts() {
  for (const chart of charts) chart.rebuild();
}

export class Chart {
  /**
   * @param {{title?: string, format?: (value: number) => string, height?: number, stacked?: boolean,
   *          time?: boolean, min?: number, max?: number}} options
   */
  constructor(options = {}) {
    this.options = { height: 180, format: number, time: true, ...options };
    this.area = h("div", { class: "chart-area" });
    this.area.style.minHeight = `${this.options.height}px`;
    this.node = h("figure", { class: "chart" }, this.area);
    this.latest = h("span", { class: "latest" });
    if (options.title) this.node.prepend(h("figcaption", {}, options.title, this.latest));
    this.width = 0;
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.area);
    charts.add(this);
  }

  // xs in seconds since the epoch when it is a time; series: [{label, values}].
  set(xs, series) {
    this.xs = xs;
    this.series = series;
    const labels = series.map(({ label }) => label).join("\n");
    if (this.plot && labels === this.labels) {
      const zoomed = this.isZoomed();
      this.plot.setData(this.data(), !zoomed);
      if (zoomed) this.plot.redraw();
    } else {
      this.labels = labels;
      this.rebuild();
    }
    this.node.dataset.points = String(xs.length);
    if (series.length === 1 && xs.length > 0) setText(this.latest, this.options.format(series[0].values.at(-1)));
  }

  isZoomed() {
    const [old] = this.plot.data;
    const { min, max } = this.plot.scales.x;
    return old.length > 1 && (min > old[0] || max < old[old.length - 1]);
  }

  // Stacked values are sums; they are drawn from the highest to the lowest, each over the last.
  data() {
    if (!this.options.stacked) return [this.xs, ...this.series.map(({ values }) => values)];
    const sums = new Array(this.xs.length).fill(0);
    const layers = this.series.map(({ values }) => values.map((value, i) => (sums[i] += value ?? 0)));
    return [this.xs, ...layers.reverse()];
  }

  rebuild() {
    this.plot?.destroy();
    this.plot = null;
    if (!this.xs || this.width === 0) return;
    this.plot = new uPlot(this.plotOptions(), this.data(), this.area);
  }

  plotOptions() {
    const { format, height, stacked, time, min, max } = this.options;
    const axis = { stroke: cssColour("--quiet"), grid: { stroke: cssColour("--grid"), width: 1 }, ticks: { show: false } };
    const order = this.series.map((one, i) => ({ ...one, i }));
    const lines = (stacked ? order.reverse() : order).map(({ label, i }) => ({
      label,
      stroke: seriesColour(i),
      fill: stacked ? seriesColour(i) : undefined,
      width: stacked ? 0 : 1.5,
      points: { show: this.xs.length === 1 },
      spanGaps: true,
      value: (plot, shown, series, at) => (at === null ? "–" : format(this.series[i].values[at])),
    }));
    return {
      width: this.width,
      height,
      series: [{ value: (plot, at) => (at === null ? "–" : time ? new Date(at * 1000).toLocaleTimeString("en-GB") : number(at)) }, ...lines],
      scales: { x: { time }, y: { range: (plot, low, high) => this.range(low, high, min, max) } },
      axes: [
        { ...axis, size: 28, space: 70 },
        { ...axis, size: 62, values: (plot, values) => values.map(format) },
      ],
      cursor: { y: false, focus: { prox: 16 }, points: { size: 6 } },
      legend: { live: true },
      padding: [8, 12, 0, 0],
    };
  }

  // Down to 0 unless that would hide what happens, as with a loss.
  range(low, high, min, max) {
    if (low === null || high === null) return [0, 1];
    const bottom = min ?? (low >= 0 && low < high / 2 ? 0 : low - (high - low) * 0.05);
    const top = Math.max(max ?? -Infinity, high + (high - bottom) * 0.06);
    return bottom === top ? [bottom - 1, top + 1] : [bottom, top];
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
export function bars(entries, format = number) {
  const most = Math.max(...entries.map(({ value }) => Math.abs(value)), 0) || 1;
  const list = h("div", { class: "bars" });
  fill(
    list,
    entries.map(({ label, value }) =>
      h(
        "div",
        { class: "bar-row" },
        h("span", { class: "bar-label", title: label }, label),
        h("span", { class: "bar-track" }, h("span", { class: "bar", style: { width: `${(100 * Math.abs(value)) / most}%` } })),
        h("span", { class: "bar-value" }, format(value)),
      ),
    ),
  );
  return list;
}
