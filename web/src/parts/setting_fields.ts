// A field for each kind of setting: a switch, a list, numbers with their unit, words that can be ticked.
import { h } from "../lib/dom";
import { bytes, integer, span } from "../lib/format";
import type { Setting } from "../types/api";

export interface Field {
  node: HTMLElement;
  value: () => string;
  show: (value: string) => void;
}

export function fieldOf(setting: Setting, changed: () => void): Field {
  const { name, type, value, choices = [] } = setting;
  if (type === "flag") return flag(name, value, changed);
  if (type === "choice") return list(name, value, choices, changed);
  if (type === "words") return words(name, value, choices, changed);
  return text(setting, changed);
}

function flag(name: string, value: string, changed: () => void): Field {
  const input = h("input", { type: "checkbox", role: "switch", "aria-label": name, onchange: changed });
  const show = (text: string) => void (input.checked = text === "true");
  show(value);
  return { node: h("label", { class: "check" }, input, "on"), value: () => String(input.checked), show };
}

function list(name: string, value: string, choices: string[], changed: () => void): Field {
  const select = h("select", { "aria-label": name, onchange: changed }, choices.map((one) => h("option", { value: one }, one)));
  const show = (text: string) => void (select.value = text);
  show(value);
  return { node: select, value: () => select.value, show };
}

// In their order; none of them is "none".
function words(name: string, value: string, choices: string[], changed: () => void): Field {
  const boxes = choices.map((one) => h("input", { type: "checkbox", value: one, onchange: changed }));
  const show = (text: string) => {
    const chosen = text.split(",");
    for (const box of boxes) box.checked = chosen.includes(box.value);
  };
  show(value);
  const labels = boxes.map((box) => h("label", { class: "check" }, box, box.value));
  const chosen = () => boxes.filter(({ checked }) => checked).map((box) => box.value);
  return {
    node: h("span", { class: "words", role: "group", "aria-label": name }, labels),
    value: () => chosen().join(",") || "none",
    show,
  };
}

// "268435456" is said as 256 MB beside it; what is typed may be either.
function text({ name, type, value, minimum, maximum }: Setting, changed: () => void): Field {
  const plain = h("span", { class: "quiet-text unit" });
  const number = type === "seconds" || type === "bytes" || type === "count";
  const input = h("input", {
    type: "text",
    class: "mono",
    inputmode: number ? "decimal" : null,
    "aria-label": name,
    title: number && maximum !== undefined ? `from ${said(type, minimum ?? 0)} to ${said(type, maximum)}` : null,
    oninput: () => {
      tell();
      changed();
    },
  });
  const tell = () => (plain.textContent = number && input.value.trim() !== "" ? said(type, Number(input.value)) : "");
  const show = (text: string) => {
    input.value = text;
    tell();
  };
  show(value);
  return { node: h("span", { class: "text-field" }, input, plain), value: () => input.value.trim(), show };
}

function said(type: Setting["type"], value: number): string {
  if (!Number.isFinite(value)) return "";
  if (type === "bytes") return bytes(value);
  if (type === "seconds") return value >= 60 ? span(value) : `${value} s`;
  return value >= 1000 ? integer(value) : "";
}
