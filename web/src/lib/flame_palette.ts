// The colours of flame graphs, which the SVG has, too: whose code a frame is.
import palette from "../../../src/flame/palette.json";

export type FlameClass = keyof typeof palette;
export const CLASSES = Object.keys(palette) as FlameClass[];

const SHADES = 3;
const PACKAGES = /^.*\/(?:site|dist)-packages\/(.*)$/;

// As src/flame/palette.cc says it of a frame.
export function classOf(kind: string, file: string): FlameClass {
  if (kind === "group") return "group";
  if (kind === "native") return "native";
  const inside = PACKAGES.exec(file)?.[1];
  if (inside) return inside.startsWith("torch/") ? "torch" : "packages";
  return file.includes("/lib/python3") || file.startsWith("<frozen") ? "stdlib" : "own";
}

export function classTitle(name: FlameClass): string {
  return palette[name].name;
}

export function hash(text: string) {
  let value = 2166136261;
  for (let i = 0; i < text.length; i += 1) value = Math.imul(value ^ text.charCodeAt(i), 16777619);
  return value >>> 0;
}

export function fillOf(name: FlameClass, label: string, dark: boolean): string {
  return palette[name][dark ? "dark" : "light"].fill[hash(label) % SHADES];
}

export function inkOf(name: FlameClass, dark: boolean): string {
  return palette[name][dark ? "dark" : "light"].ink;
}
