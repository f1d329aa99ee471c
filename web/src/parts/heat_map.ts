// A picture of ranks × steps: darker took longer. What stands out is a row (a slow rank), a column (a slow
// step) or a corner (it began here).
import { cssColour, h, keepDrawn, setText } from "../lib/dom";
import type { HeatField } from "../types/targets";

const ROW = 14;
const MOST_HEIGHT = 420;

export class HeatMap {
  field: HeatField | null = null;

  canvas: HTMLCanvasElement;
  note: HTMLParagraphElement;
  node: HTMLDivElement;

  constructor(signal: AbortSignal) {
    this.canvas = h("canvas", { class: "heat-map", role: "img", "aria-label": "time of each step by rank" });
    this.note = h("p", { class: "quiet-text" });
    this.node = h("div", {}, this.canvas, this.note);
    keepDrawn(this.node, () => this.draw(), signal);
    this.canvas.addEventListener("mousemove", (event) => this.tell(event));
  }

  show(field: HeatField) {
    this.field = field;
    this.draw();
    const { ranks, steps } = field;
    setText(this.note, `${ranks.length} ranks, steps ${steps[0]} to ${steps.at(-1)}; darker took longer`);
  }

  draw() {
    const context = this.canvas.getContext("2d");
    if (!this.field || !context || this.node.clientWidth === 0) return;
    const { ranks, steps, cells } = this.field;
    const scale = window.devicePixelRatio || 1;
    const width = this.node.clientWidth;
    const height = Math.min(MOST_HEIGHT, Math.max(2 * ROW, ranks.length * ROW));
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    this.canvas.style.setProperty("height", `${height}px`);
    context.scale(scale, scale);
    context.fillStyle = cssColour("--series-0");
    const [w, t] = [width / steps.length, height / ranks.length];
    cells.forEach((row, y) =>
      row.forEach((value, x) => {
        if (value === null) return;
        context.globalAlpha = 0.08 + 0.92 * value;
        context.fillRect(x * w, y * t, Math.ceil(w), Math.ceil(t) - (t > 4 ? 1 : 0));
      }),
    );
  }

  tell({ offsetX, offsetY }: MouseEvent) {
    if (!this.field) return;
    const { ranks, steps } = this.field;
    const rank = ranks[Math.floor((offsetY / this.canvas.clientHeight) * ranks.length)];
    const step = steps[Math.floor((offsetX / this.canvas.clientWidth) * steps.length)];
    this.canvas.title = rank === undefined || step === undefined ? "" : `rank ${rank}, step ${step}`;
  }
}
