// Bars of one number for each label, the longest first.
import { fill, h } from "../lib/dom";
import { number } from "../lib/format";

export function bars(
  entries: { label: string; value: number }[],
  format: (value: number) => string = number,
): HTMLElement {
  const most = Math.max(...entries.map(({ value }) => Math.abs(value)), 0) || 1;
  const list = h("div", { class: "bars" });
  fill(
    list,
    entries.map(({ label, value }) =>
      h(
        "div",
        { class: "bar-row" },
        h("span", { class: "bar-label", title: label }, label),
        h(
          "span",
          { class: "bar-track" },
          h("span", { class: "bar", style: { width: `${(100 * Math.abs(value)) / most}%` } }),
        ),
        h("span", { class: "bar-value" }, format(value)),
      ),
    ),
  );
  return list;
}
