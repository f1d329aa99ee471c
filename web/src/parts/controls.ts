// Small controls that several pages have.
import { h } from "../lib/dom";
import type { Check, Choice, Hear, Option, Tabs } from "../types/page";

export function check(text: string, on: boolean, changed: Hear<boolean>): Check {
  const input = h("input", { type: "checkbox", onchange: () => changed(input.checked) });
  input.checked = on;
  return { node: h("label", { class: "check" }, input, text), on: () => input.checked };
}

export function choice(
  label: string,
  options: Option[],
  value: string | null,
  changed: Hear<string>,
): Choice {
  const select = h("select", { "aria-label": label, onchange: () => changed(select.value) });
  select.append(...options.map(([each, text]) => h("option", { value: each }, text)));
  select.value = value !== null && options.some(([each]) => each === value) ? value : options[0][0];
  return { node: select, value: () => select.value };
}

// Two or more views of the same thing; arrows move between them.
export function tabs(label: string, options: Option[], value: string, changed: Hear<string>): Tabs {
  const buttons = options.map(([each, text]) =>
    h("button", { type: "button", role: "tab", "data-value": each, onclick: () => select(each) }, text),
  );
  const select = (each: string) => {
    value = each;
    for (const button of buttons) {
      const isChosen = button.dataset.value === each;
      button.setAttribute("aria-selected", String(isChosen));
      button.tabIndex = isChosen ? 0 : -1;
    }
    changed(each);
  };
  const node = h("div", { class: "tabs", role: "tablist", "aria-label": label }, buttons);
  node.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = buttons.findIndex((button) => button.dataset.value === value);
    const next = (at + step + buttons.length) % buttons.length;
    select(options[next][0]);
    buttons[next].focus();
  });
  const first = options.some(([each]) => each === value) ? value : options[0][0];
  for (const button of buttons) {
    button.setAttribute("aria-selected", String(button.dataset.value === first));
    button.tabIndex = button.dataset.value === first ? 0 : -1;
  }
  value = first;
  return { node, value: () => value, select };
}
