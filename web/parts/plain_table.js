// A small table. columns: [[heading, class of its cells]]; rows: [[text or nodes]].
import { h } from "../lib/dom.js";

export function plainTable(columns, rows, kind = "") {
  const head = columns.map(([name, column]) => h("th", { class: column === "number" ? column : null }, name));
  const body = rows.map((cells) =>
    h(
      "tr",
      {},
      cells.map((cell, i) => h("td", { class: columns[i][1] ?? null }, cell)),
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
