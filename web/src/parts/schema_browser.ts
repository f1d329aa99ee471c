// Tables and their columns beside the editor: a click puts the name where the caret is.
import { fill, h } from "../lib/dom";
import type { Hear } from "../types/page";
import type { Schema, Table } from "../types/tables";

export class SchemaBrowser {
  private schema: Schema = new Map();
  private readonly filter = h("input", {
    type: "search",
    placeholder: "Tables and columns",
    "aria-label": "Filter tables and columns",
    oninput: () => this.draw(),
  });
  private readonly list = h("div", { class: "schema-list" });
  readonly node = h("aside", { class: "card side schema", "aria-label": "Tables" }, this.filter, this.list);

  constructor(private readonly use: Hear<string>) {}

  show(schema: Schema) {
    this.schema = schema;
    this.draw();
  }

  private draw() {
    const word = this.filter.value.toLowerCase();
    const has = (name: string, { doc, columns }: Table) =>
      `${name} ${doc}`.toLowerCase().includes(word) || columns.some((column) => column.name.includes(word));
    const found = [...this.schema].filter(([name, table]) => !word || has(name, table));
    fill(
      this.list,
      found.map(([name, table]) => this.tableNode(name, table)),
    );
  }

  // Columns are made when somebody opens them.
  private tableNode(name: string, { doc, kind, columns }: Table) {
    const body = h("div", {});
    const insert = (text: string, node: HTMLElement) => {
      node.addEventListener("click", () => this.use(text));
      return node;
    };
    const open = ({ target }: Event) => {
      if (!(target as HTMLDetailsElement).open || body.firstChild) return;
      fill(
        body,
        h("p", { class: "quiet-text" }, doc),
        insert(name, h("button", { type: "button", class: "small" }, "Insert the name")),
        columns.map(({ name: column, type, doc: text, unit }) =>
          insert(
            column,
            h(
              "button",
              { type: "button", class: "column", title: `${text}${unit ? ` (${unit})` : ""}` },
              h("span", { class: "mono" }, column),
              h("span", { class: "quiet-text" }, type.toLowerCase()),
            ),
          ),
        ),
      );
    };
    return h("details", { ontoggle: open }, h("summary", { title: doc }, h("span", { class: "mono" }, name), h("span", { class: "badge" }, kind)), body);
  }
}
