// Small controls that several pages have.
import { h } from "../lib/dom.js";

export function check(text, on, changed) {
  const input = h("input", { type: "checkbox", onchange: () => changed(input.checked) });
  input.checked = on;
  return { node: h("label", { class: "check" }, input, text), on: () => input.checked };
}

// options: [[value, text]]
export function choice(label, options, value, changed) {
  const select = h("select", { "aria-label": label, onchange: () => changed(select.value) });
  select.append(...options.map(([each, text]) => h("option", { value: each }, text)));
  select.value = options.some(([each]) => each === value) ? value : options[0][0];
  return { node: select, value: () => select.value };
}

// Two or more views of the same thing; arrows move between them.
export function tabs(label, options, value, changed) {
  const buttons = options.map(([each, text]) =>
    h("button", { type: "button", role: "tab", "data-value": each, onclick: () => select(each) }, text),
  );
  const select = (each) => {
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
    const next = buttons[(at + step + buttons.length) % buttons.length];
    select(next.dataset.value);
    next.focus();
  });
  const first = options.some(([each]) => each === value) ? value : options[0][0];
  for (const button of buttons) {
    button.setAttribute("aria-selected", String(button.dataset.value === first));
    button.tabIndex = button.dataset.value === first ? 0 : -1;
  }
  value = first;
  return { node, value: () => value, select };
}
