// How a flame graph is painted: boxes that can be seen, in the colours of their classes.
import { cssColour } from "../lib/dom";
import { fillOf, inkOf } from "../lib/flame_palette";
import { fitting } from "../lib/text_width";
import type { FlameClass } from "../lib/flame_palette";
import type { FlameBox, FlameNode } from "../types/flame";

export const ROW = 19;
export const FONT = '11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';

export interface FlamePicture {
  boxes: FlameBox[];
  focus: FlameBox; // what fills the width
  selected: FlameBox | null;
  width: number;
  height: number;
  inverted: boolean;
  dark: boolean;
  changes: Map<FlameNode, number> | null; // against another tree
  isHit: (box: FlameBox) => boolean;
}

export interface Painted {
  box: FlameBox;
  x: number;
  y: number;
  w: number;
}

// Red for more than before, blue for less; 20 % of the whole and beyond are full colours.
function changeColour(change: number, dark: boolean) {
  const strength = Math.min(Math.abs(change) / 0.2, 1);
  const lightness = dark ? 26 + 14 * strength : 94 - 26 * strength;
  return `hsl(${change > 0 ? 8 : 214} ${Math.round(20 + 60 * strength)}% ${lightness}%)`;
}

export function paintFlames(context: CanvasRenderingContext2D, picture: FlamePicture): Painted[] {
  const { boxes, focus, selected, width, height, inverted, dark, changes, isHit } = picture;
  context.font = FONT;
  context.textBaseline = "middle";
  const character = context.measureText("0").width || 6.6;
  const end = focus.start + focus.ticks;
  const scale = width / Math.max(focus.ticks, 1);
  const text = cssColour("--text");
  const found = cssColour("--flame-hit");
  const painted: Painted[] = [];
  for (const box of boxes) {
    const isCaller = box.depth < focus.depth && box.start <= focus.start && box.start + box.ticks >= end;
    const isInside = box.depth >= focus.depth && box.start >= focus.start && box.start + box.ticks <= end;
    if (!isCaller && !isInside) continue;
    const x = isCaller ? 0 : (box.start - focus.start) * scale;
    const w = isCaller ? width : box.ticks * scale;
    if (w < 0.4) continue;
    const y = inverted ? height - (box.depth + 1) * ROW : box.depth * ROW;
    const { kind, idle, ticks, label } = box.node;
    const name: FlameClass = idle === ticks && kind !== "group" ? "idle" : kind;
    const isFound = isHit(box);
    const isChange = changes !== null && !isFound;
    context.globalAlpha = isCaller ? 0.55 : 1;
    context.fillStyle = isFound
      ? found
      : isChange
        ? changeColour(changes.get(box.node) ?? 0, dark)
        : fillOf(name, label, dark);
    context.fillRect(x, y, Math.max(w - 0.8, 0.4), ROW - 1);
    if (box === selected) {
      context.strokeStyle = text;
      context.strokeRect(x + 0.5, y + 0.5, Math.max(w - 2, 1), ROW - 2);
    }
    const shown = w > 4 * character ? fitting(label, Math.floor((w - 8) / character)) : "";
    if (shown) {
      context.fillStyle = isFound ? "#fff" : isChange ? text : inkOf(name, dark);
      context.fillText(shown, x + 4, y + ROW / 2);
    }
    painted.push({ box, x, y, w });
  }
  return painted;
}
