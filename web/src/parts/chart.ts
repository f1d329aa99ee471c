// Lines over time or steps (uPlot). A chart is made once; new data is put into it, and a zoom stays.
import { axisTexts, csvOf, smooth } from "../lib/chart_data";
import { cssColour, download, fill, h, seriesVariable, setText } from "../lib/dom";
import { clock, number, withUnit } from "../lib/format";
import type uPlot from "uplot";
import type { ChartOptions, Line } from "../types/tables";

const NEAR = 20; // rows
const charts: Set<Chart> = new Set();

// Round numbers of bytes, KB, MB…
const BYTE_STEPS = [0, 1, 2, 3, 4].flatMap((power) =>
  [1, 2, 4, 8, 16, 32, 64, 128, 256, 512].map((count) => count * 1024 ** power),
);
const WHOLE_STEPS = [0, 1, 2, 3, 4, 5, 6, 7, 8].flatMap((power) => [1, 2, 5].map((count) => count * 10 ** power));

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
  smoothing = 0; // 0 to below 1
  logarithmic = false;

  options: ChartOptions & Required<Pick<ChartOptions, "height" | "unit" | "time">>;
  area: HTMLDivElement;
  legend: HTMLDivElement;
  node: HTMLElement;
  observer: ResizeObserver;

  constructor(options: ChartOptions = {}) {
    this.options = { height: 180, unit: "", time: true, ...options };
    this.area = h("div", { class: "chart-area" });
    this.area.style.minHeight = `${this.options.height}px`;
    this.legend = h("div", { class: "legend" });
    this.node = h("figure", { class: "chart" }, this.area, this.legend);
    const { title } = this.options;
    if (title) {
      const save = (text: string, label: string, run: () => void) =>
        h("button", { type: "button", class: "quiet small", "aria-label": `${label} of ${title}`, onclick: run }, text);
      const tools = h(
        "span",
        { class: "chart-tools" },
        save("PNG", "picture", () => this.savePicture()),
        save("CSV", "numbers", () => download(`${title}.csv`, "text/csv", csvOf(this.xName(), this.xs, this.series))),
      );
      this.node.prepend(h("figcaption", {}, title, tools));
    }
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.area);
    charts.add(this);
    void fetchPlotter();
  }

  xName() {
    return this.options.time ? "time" : "step";
  }

  format(value: number | null) {
    return withUnit(value, this.options.unit);
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

  // How it is drawn, not what.
  look({ smoothing = this.smoothing, logarithmic = this.logarithmic }): void {
    if (smoothing === this.smoothing && logarithmic === this.logarithmic) return;
    Object.assign(this, { smoothing, logarithmic });
    this.node.dataset.look = `${logarithmic ? "log" : "linear"} ${smoothing}`;
    this.rebuild();
  }

  // What is under the cursor, or the latest; a click hides a line.
  makeLegend() {
    this.entries = this.series.map(({ label, dashed }, i) => {
      const value = h("b", {});
      const mark = h("i", { class: dashed ? "dashed" : null, style: { "--own": `var(${this.colour(i)})` } });
      const parts = [mark, label, value];
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

  // What is dashed is the other run of the line that has its colour.
  colour(i: number) {
    const solid = this.series.findIndex(({ dashed }) => dashed);
    return seriesVariable(solid > 0 && i >= solid ? i - solid : i);
  }

  drawLegend(at: number | null | undefined) {
    const row = at ?? this.xs.length - 1;
    this.entries.forEach(({ value }, i) => setText(value, this.format(this.valueAt(i, row))));
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

  // Seconds only where marks are that near.
  xTexts(values: number[]) {
    if (!this.options.time) return values.map(number);
    const gap = values.length > 1 ? values[1] - values[0] : 1;
    return values.map((x) => (gap >= 60 ? clock(x * 1000).slice(0, 5) : clock(x * 1000)));
  }

  isZoomed(plot: uPlot) {
    const [old] = plot.data;
    const { min = -Infinity, max = Infinity } = plot.scales.x;
    return old.length > 1 && (min > old[0] || max < old[old.length - 1]);
  }

  // Stacked values are sums; they are drawn from the highest to the lowest, each over the last. Smoothed ones
  // come with what they were made of, which is drawn faintly.
  data(): uPlot.AlignedData {
    const { stacked } = this.options;
    if (stacked) {
      const sums: number[] = new Array(this.xs.length).fill(0);
      const layers = this.series.map(({ values }) => values.map((value, i) => (sums[i] += value ?? 0)));
      return [this.xs, ...layers.reverse()];
    }
    const positive = (value: number | null) => (value !== null && value > 0 ? value : null);
    const own = this.series.map(({ values }) => (this.logarithmic ? values.map(positive) : values));
    if (this.smoothing === 0) return [this.xs, ...own];
    return [this.xs, ...own.map((values) => smooth(values, this.smoothing)), ...own];
  }

  rebuild() {
    this.plot?.destroy();
    this.plot = null;
    if (this.labels === null || this.width === 0 || !Plot) return;
    this.plot = new Plot(this.plotOptions(), this.data(), this.area);
  }

  lines(): uPlot.Series[] {
    const { stacked } = this.options;
    const order = this.series.map((one, i) => ({ ...one, colour: cssColour(this.colour(i)) }));
    const line = ({ label, colour, dashed }: (typeof order)[number], faint = false): uPlot.Series => ({
      label,
      stroke: faint ? `${colour}44` : colour,
      fill: stacked ? colour : undefined,
      width: stacked ? 0 : faint ? 1 : 1.5,
      dash: dashed ? [6, 4] : undefined,
      points: { show: this.xs.length === 1 },
      spanGaps: true,
    });
    const drawn = (stacked ? order.reverse() : order).map((one) => line(one));
    return this.smoothing > 0 && !stacked ? [...drawn, ...order.map((one) => line(one, true))] : drawn;
  }

  plotOptions(): uPlot.Options {
    const { height, time, min, max, unit, band, brushed } = this.options;
    const axis = {
      stroke: cssColour("--quiet"),
      grid: { stroke: cssColour("--grid"), width: 1 },
      ticks: { show: false },
      font: "11px system-ui, sans-serif",
    };
    const y: uPlot.Scale = this.logarithmic
      ? { distr: 3 }
      : { range: (_plot, low, high) => this.range(low, high, min, max) };
    return {
      width: this.width,
      height,
      series: [{}, ...this.lines()],
      scales: { x: { time }, y },
      axes: [
        { ...axis, size: 26, space: 80, incrs: time ? undefined : WHOLE_STEPS, values: (_plot, values) => this.xTexts(values) },
        {
          ...axis,
          size: 66,
          incrs: unit.startsWith("bytes") && !this.logarithmic ? BYTE_STEPS : undefined,
          values: (_plot, values) =>
            this.logarithmic
              ? values.map((value) => (value === null ? "" : (axisTexts([value], unit)[0] ?? "")))
              : axisTexts(values, unit),
        },
      ],
      bands: band ? [{ series: [1, 3], fill: `${cssColour(seriesVariable(0))}22` }] : undefined,
      cursor: { y: false, points: { size: 6 }, sync: { key: this.xName() }, drag: { x: true, setScale: !brushed } },
      hooks: {
        setCursor: [(plot) => this.drawLegend(plot.cursor.idx)],
        setSelect: [(plot) => this.brush(plot)],
      },
      legend: { show: false },
      padding: [8, 26, 0, 0],
    };
  }

  // What somebody has drawn over is what all charts of the page show.
  brush(plot: uPlot) {
    const { brushed } = this.options;
    const { left, width } = plot.select;
    if (!brushed || width < 5 || !plot.cursor.event) return;
    brushed(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
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

  // With its title and its ground: for a document.
  savePicture() {
    const drawn = this.plot?.ctx.canvas;
    if (!drawn) return;
    const head = 28 * (window.devicePixelRatio || 1);
    const canvas = h("canvas", { width: String(drawn.width), height: String(drawn.height + head) });
    const context = canvas.getContext("2d");
    if (!context) return;
    context.fillStyle = cssColour("--surface");
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.fillStyle = cssColour("--text");
    context.font = `600 ${head / 2}px system-ui, sans-serif`;
    context.fillText(this.options.title ?? "", head / 3, head * 0.66);
    context.drawImage(drawn, 0, head);
    canvas.toBlob((blob) => blob && download(`${this.options.title}.png`, "image/png", blob));
  }

  destroy() {
    this.observer.disconnect();
    this.plot?.destroy();
    charts.delete(this);
  }
}
