// Elements without HTML text: everything that comes from a target is put in as text, never parsed.

/**
 * h("a", {class: "x", href: "#", onclick: f, style: {width: "3em"}}, "text", node, [more])
 * Attributes that are null, undefined or false are left out; children that are, too.
 */
export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") setStyle(node, value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...flat(children));
  return node;
}

// Property by property: style attributes are forbidden by the page's content security policy.
function setStyle(node, style) {
  for (const [name, value] of Object.entries(style)) node.style.setProperty(name, value);
}

function flat(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

export function fill(node, ...children) {
  node.replaceChildren(...flat(children));
  return node;
}

// Changes the text only where it differs: selections stay and nothing flickers.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const SVG = "http://www.w3.org/2000/svg";

export function icon(path, size = 18) {
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

export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// Whether the clipboard took it: pages that are not served by https or localhost have none.
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

// A colour of the theme, for canvases.
export function cssColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const SERIES_COLOURS = 8;

// The name of a colour that differs from its neighbours'.
export function seriesVariable(i) {
  return `--series-${i % SERIES_COLOURS}`;
}

// Canvases do not hear of another size or theme by themselves.
export function keepDrawn(node, draw, signal) {
  const observer = new ResizeObserver(draw);
  observer.observe(node);
  signal.addEventListener("abort", () => observer.disconnect());
  window.addEventListener("themechange", draw, { signal });
}
