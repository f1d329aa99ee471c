// A picture of ranks × steps: the fuller the colour, the longer it took. What stands out is a row (a slow rank), a column
// (a slow step) or a corner (it began here).
import { cssColour, fill, h, keepDrawn } from "../lib/dom";
import { count, seconds } from "../lib/format";
import { ranges } from "../lib/cluster";
import { ticks } from "./timeline_canvas";
import type { HeatField } from "../types/targets";

const ROW = 18;
const MOST_HEIGHT = 420;
const LEFT = 64; // names of ranks
const BELOW = 20; // numbers of steps
const LABEL_APART = 90;
const FONT = "11px system-ui, sans-serif";

export class HeatMap {
  field: HeatField | null = null;

  private readonly canvas = h("canvas", { class: "heat-map", role: "img" });
  private readonly note = h("p", { class: "quiet-text heat-note" });
  readonly node = h("div", {}, this.canvas, this.note);

  constructor(signal: AbortSignal) {
    keepDrawn(this.node, () => this.draw(), signal);
    this.canvas.addEventListener("mousemove", (event) => this.tell(event));
  }

  show(field: HeatField) {
    this.field = field;
    this.draw();
    const { ranks, steps, low, high } = field;
    const what = `${count(ranks.length, "rank")} (${ranges(ranks)}), steps ${steps[0]} to ${steps.at(-1)}`;
    this.canvas.setAttribute("aria-label", `time of each step by rank: ${what}, ${seconds(low)} to ${seconds(high)}`);
    fill(this.note, h("span", {}, what), h("span", { class: "heat-scale" }, seconds(low), h("i"), seconds(high)));
  }

  private draw() {
    const context = this.canvas.getContext("2d");
    const width = this.node.clientWidth;
    if (!this.field || !context || width === 0) return;
    const { ranks, steps, cells } = this.field;
    const ratio = window.devicePixelRatio || 1;
    const rowHeight = Math.max(1, Math.min(ROW, MOST_HEIGHT / ranks.length));
    const height = ranks.length * rowHeight;
    this.canvas.width = width * ratio;
    this.canvas.height = (height + BELOW) * ratio;
    this.canvas.style.setProperty("height", `${height + BELOW}px`);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const columnWidth = (width - LEFT) / steps.length;
    context.fillStyle = cssColour("--series-0");
    cells.forEach((row, y) =>
      row.forEach((value, x) => {
        if (value === null) return;
        context.globalAlpha = 0.08 + 0.92 * value;
        context.fillRect(LEFT + x * columnWidth, y * rowHeight, Math.ceil(columnWidth), rowHeight - (rowHeight > 4 ? 1 : 0));
      }),
    );
    context.globalAlpha = 1;
    this.drawAxes(context, columnWidth, rowHeight, height);
  }

  private drawAxes(context: CanvasRenderingContext2D, columnWidth: number, rowHeight: number, height: number) {
    const { ranks, steps } = this.field!;
    context.fillStyle = cssColour("--quiet");
    context.font = FONT;
    context.textBaseline = "middle";
    context.textAlign = "right";
    const every = Math.ceil(13 / rowHeight);
    ranks.forEach((rank, y) => {
      if (y % every === 0) context.fillText(`rank ${rank}`, LEFT - 8, (y + 0.5) * rowHeight);
    });
    context.textAlign = "center";
    const { step } = ticks(0, steps.length, (columnWidth * steps.length) / LABEL_APART);
    const apart = Math.max(1, Math.round(step));
    steps.forEach((number, x) => {
      const at = LEFT + (x + 0.5) * columnWidth;
      if (number % apart === 0 && at < LEFT + columnWidth * steps.length - 12) context.fillText(String(number), at, height + BELOW / 2);
    });
  }

  private tell({ offsetX, offsetY }: MouseEvent) {
    if (!this.field) return;
    const { ranks, steps } = this.field;
    const rank = ranks[Math.floor((offsetY / (this.canvas.clientHeight - BELOW)) * ranks.length)];
    const step = steps[Math.floor(((offsetX - LEFT) / (this.canvas.clientWidth - LEFT)) * steps.length)];
    this.canvas.title = rank === undefined || step === undefined ? "" : `rank ${rank}, step ${step}`;
  }
}
