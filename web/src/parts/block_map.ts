// The memory of one GPU as torch's allocator has it: all blocks as one line that is broken into rows.
import { cssColour, h, keepDrawn } from "../lib/dom";
import { bytes, seconds, shortFile } from "../lib/format";
import { piecesOf } from "../lib/gpu_blocks";
import { Tip } from "./tip";
import type { BlockRow, BlockState, MapPiece } from "../types/gpu_blocks";

const ROW = 16;
const GAP = 2;
const MOST_ROWS = 16;
const STATES: [BlockState, text: string, colour: string][] = [
  ["allocated", "allocated", "--series-0"],
  ["pending_free", "freed, another stream may use it", "--series-1"],
  ["free", "kept for the next allocation", "--line"],
];

export class BlockMap {
  private pieces: MapPiece[] = [];
  private readonly rows: number;
  private readonly canvas: HTMLCanvasElement;
  private readonly tip = new Tip();
  readonly node: HTMLElement;

  constructor(
    private readonly blocks: BlockRow[],
    signal: AbortSignal,
  ) {
    this.rows = Math.max(1, Math.min(MOST_ROWS, Math.ceil(blocks.length / 8)));
    this.pieces = piecesOf(blocks, this.rows);
    const label = `${blocks.length} blocks of GPU ${blocks[0]?.device ?? 0}; who holds them is in the table below`;
    this.canvas = h("canvas", { class: "block-map", role: "img", "aria-label": label });
    const there = new Set(blocks.map(({ state }) => state));
    const legend = STATES.filter(([state]) => there.has(state)).map(([, text, colour]) =>
      h("span", { class: "legend-entry" }, h("i", { style: { "--own": `var(${colour})` } }), text),
    );
    this.node = h("div", { class: "canvas-view" }, this.canvas, this.tip.node, h("div", { class: "legend" }, legend));
    this.canvas.addEventListener("mousemove", (event) => this.tell(event.offsetX, event.offsetY));
    this.canvas.addEventListener("mouseleave", () => this.tip.hide());
    keepDrawn(this.node, () => this.draw(), signal);
  }

  private tell(x: number, y: number) {
    const row = Math.floor(y / (ROW + GAP));
    const share = x / Math.max(this.canvas.clientWidth, 1);
    const found = this.pieces.find((one) => one.row === row && share >= one.x && share < one.x + one.w);
    if (!found) return this.tip.hide();
    const { func, file, lineno, state, bytes: size, age_s: age } = found.block;
    const place = func ? `${func} (${shortFile(file ?? "?")}:${lineno ?? "?"})` : "";
    const title = STATES.find(([name]) => name === state)?.[1] ?? state;
    this.tip.show(this.node, x, y, h("strong", {}, bytes(size)), title, place, age === null ? "" : `${seconds(age)} old`);
  }

  private draw() {
    const width = this.node.clientWidth;
    const context = this.canvas.getContext("2d");
    if (!context || width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    const height = this.rows * (ROW + GAP);
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.height = `${height}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const colours = new Map(STATES.map(([state, , variable]) => [state, cssColour(variable)]));
    const ground = cssColour("--surface");
    let segment: BlockRow["segment"] | null = null;
    for (const { row, x, w, block } of this.pieces) {
      const left = x * width;
      context.fillStyle = colours.get(block.state) ?? ground;
      context.fillRect(left, row * (ROW + GAP), Math.max(w * width - (w * width > 3 ? 1 : 0), 0.5), ROW);
      if (segment !== null && segment !== block.segment && left > 0) {
        context.fillStyle = ground;
        context.fillRect(left - 2, row * (ROW + GAP), 2, ROW);
      }
      segment = block.segment;
    }
    this.canvas.dataset.blocks = String(this.blocks.length);
  }
}
