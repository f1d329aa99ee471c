// Areas in proportion to values ("squarified": as near to squares as they can be). Pure.
import type { Area, Box } from "../types/training";

function worst(row: { area: number }[], sum: number, side: number): number {
  const scale = (side * side) / (sum * sum);
  return Math.max(row[0].area * scale, 1 / (row[row.length - 1].area * scale));
}

// Within w × h; the value of each entry is its size.
export function treemap<T extends { value: number }>(entries: T[], w: number, h: number) {
  const sorted = entries.filter(({ value }) => value > 0).sort((a, b) => b.value - a.value);
  const total = sorted.reduce((sum, { value }) => sum + value, 0);
  const items = sorted.map((entry) => ({ entry, area: (entry.value / total) * w * h }));
  const placed: Box<T>[] = [];
  let room = { x: 0, y: 0, w, h };
  while (items.length > 0) {
    const side = Math.min(room.w, room.h);
    const row = items.splice(0, 1);
    let sum = row[0].area;
    while (
      items.length > 0 &&
      worst([...row, items[0]], sum + items[0].area, side) <= worst(row, sum, side)
    ) {
      sum += items[0].area;
      row.push(...items.splice(0, 1));
    }
    room = placeRow(row, sum, room, placed);
  }
  return placed;
}

// Along the shorter side of the room; what is left of the room is returned.
function placeRow<T>(
  row: { entry: T; area: number }[],
  sum: number,
  { x, y, w, h }: Area,
  placed: Box<T>[],
): Area {
  const isColumn = w >= h;
  const thickness = sum / (isColumn ? h : w);
  let at = isColumn ? y : x;
  for (const { entry, area } of row) {
    const length = area / thickness;
    placed.push(
      isColumn ? { entry, x, y: at, w: thickness, h: length } : { entry, x: at, y, w: length, h: thickness },
    );
    at += length;
  }
  return isColumn
    ? { x: x + thickness, y, w: w - thickness, h }
    : { x, y: y + thickness, w, h: h - thickness };
}
