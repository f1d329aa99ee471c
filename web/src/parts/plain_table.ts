// A small table.
import { h } from "../lib/dom";
import type { Child } from "../types/page";
import type { PlainColumn } from "../types/tables";

export function plainTable(columns: PlainColumn[], rows: Child[][], kind: string = ""): HTMLElement {
  const head = columns.map(([name, column]) => h("th", { class: column === "number" ? column : null }, name));
  const body = rows.map((cells) =>
    h(
      "tr",
      {},
      cells.map((cell, i) => h("td", { class: columns[i][1] ?? null, "data-label": columns[i][0] || null }, cell)),
    ),
  );
  const table = h(
    "table",
    { class: `plain ${kind}` },
    h("thead", {}, h("tr", {}, head)),
    h("tbody", {}, body),
  );
  return h("div", { class: "scroll-x" }, table);
}
