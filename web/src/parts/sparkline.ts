// A small line without axes: whether it goes on, slows down or stands still is seen at a glance.
import { h } from "../lib/dom";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [240, 40];

export function sparkline(values: number[], label: string): Element {
  const svg = document.createElementNS(SVG, "svg");
  const most = Math.max(...values, 0) || 1;
  const x = (i: number) => ((i / Math.max(values.length - 1, 1)) * WIDTH).toFixed(1);
  const y = (value: number) => (HEIGHT - 2 - (value / most) * (HEIGHT - 6)).toFixed(1);
  const line = values.map((value, i) => `${x(i)},${y(value)}`).join(" ");
  const attributes = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label };
  for (const [name, value] of Object.entries(attributes)) svg.setAttribute(name, value);
  svg.classList.add("sparkline");
  for (const [tag, points] of [["polygon", `0,${HEIGHT} ${line} ${WIDTH},${HEIGHT}`], ["polyline", line]]) {
    const shape = document.createElementNS(SVG, tag);
    shape.setAttribute("points", points);
    svg.append(shape);
  }
  return values.length > 1 ? svg : h("div", { class: "sparkline none" });
}
