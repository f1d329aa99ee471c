// Elements without HTML text: everything that comes from a target is put in as text, never parsed.
import type { Attributes, Child, OneChild } from "../types/page";

// h("a", {class: "x", href: "#", onclick: f, style: {width: "3em"}}, "text", node, [more])
// Attributes that are null, undefined or false are left out; children that are, too.
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value as EventListener);
    else if (typeof value === "object") setStyle(node, value);
    else if (name === "value") (node as HTMLInputElement).value = String(value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...flat(children));
  return node;
}

// Property by property: style attributes are forbidden by the page's content security policy.
function setStyle(node: HTMLElement, style: Record<string, string>): void {
  for (const [name, value] of Object.entries(style)) node.style.setProperty(name, value);
}

function flat(children: Child[]): (Node | string)[] {
  const all = (children as unknown[]).flat(Infinity) as OneChild[];
  return all.filter((child) => child !== null && child !== undefined && child !== false);
}

export function fill<N extends Element>(node: N, ...children: Child[]): N {
  node.replaceChildren(...flat(children));
  return node;
}

// Changes the text only where it differs: selections stay and nothing flickers.
export function setText(node: Node, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

const SVG = "http://www.w3.org/2000/svg";

export function icon(path: string, size = 18) {
  const svg = document.createElementNS(SVG, "svg");
  const shape = document.createElementNS(SVG, "path");
  for (const [name, value] of Object.entries({
    viewBox: "0 0 24 24",
    width: size,
    height: size,
    "aria-hidden": true,
  })) {
    svg.setAttribute(name, String(value));
  }
  svg.classList.add("icon");
  shape.setAttribute("d", path);
  svg.append(shape);
  return svg;
}

export function download(name: string, type: string, text: BlobPart): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// Whether the clipboard took it: pages that are not served by https or localhost have none.
export async function copy(text: string) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

// A colour of the theme, for canvases.
export function cssColour(name: string) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const SERIES_COLOURS = 8;

// The name of a colour that differs from its neighbours'.
export function seriesVariable(i: number) {
  return `--series-${i % SERIES_COLOURS}`;
}

// Canvases do not hear of another size or theme by themselves.
export function keepDrawn(node: Element, draw: () => void, signal: AbortSignal): void {
  const observer = new ResizeObserver(draw);
  observer.observe(node);
  signal.addEventListener("abort", () => observer.disconnect());
  window.addEventListener("themechange", draw, { signal });
}
