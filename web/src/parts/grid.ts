// A table of any number of rows: only those in sight exist. Sorts by a click on a heading.
import { cellText, compareCells, isNumeric } from "../lib/cells";
import { copy, fill, h, setText } from "../lib/dom";
import type { Cell, Column, Rows } from "../types/api";

const ROW_PX = 26;
const SPARE_ROWS = 12;
const MAX_ROWS = 500_000; // beyond that elements are higher than browsers allow
const SAMPLE_ROWS = 300;
const MAX_COLUMN_CH = 60;

export class Grid {
  columns: Column[] = [];
  rows: Cell[][] = [];
  order: Cell[][] = []; // the rows as they are sorted
  sort: { column: number; up: boolean } | null = null;
  names: string | null = null; // of the columns
  widths: number[] = [];

  head: HTMLDivElement;
  canvas: HTMLDivElement;
  scroller: HTMLDivElement;
  detail: HTMLPreElement;
  node: HTMLDivElement;

  constructor({ maxHeight = "28rem" } = {}) {
    this.head = h("div", { class: "grid-row grid-head", role: "row" });
    this.canvas = h("div", { class: "grid-canvas", role: "rowgroup" });
    this.scroller = h(
      "div",
      {
        class: "grid",
        role: "table",
        tabindex: "0",
        "aria-label": "result",
        style: { "max-height": maxHeight },
      },
      this.head,
      this.canvas,
    );
    this.detail = h("pre", { class: "grid-detail", hidden: true });
    this.node = h("div", {}, this.scroller, this.detail);
    this.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    this.canvas.addEventListener("click", (event) => this.open(event.target as Element));
    new ResizeObserver(() => this.draw()).observe(this.scroller);
  }

  set({ columns, rows }: Rows) {
    const names = columns.map(({ name }) => name).join("\n");
    const isOther = names !== this.names;
    this.names = names;
    this.columns = columns;
    this.rows = rows.length > MAX_ROWS ? rows.slice(0, MAX_ROWS) : rows;
    if (isOther) {
      this.sort = null;
      this.detail.hidden = true;
      this.scroller.scrollTo(0, 0);
    }
    this.setWidths(isOther);
    if (isOther) this.drawHead();
    this.scroller.setAttribute("aria-rowcount", String(this.rows.length + 1));
    this.arrange();
  }

  // Widths only grow while the columns stay the same, so that live data does not make them dance.
  setWidths(isOther: boolean) {
    const width = (column: Column, i: number) => {
      let longest = column.name.length + 2;
      for (const row of this.rows.slice(0, SAMPLE_ROWS)) {
        longest = Math.max(longest, Math.min(cellText(row[i]).length, MAX_COLUMN_CH));
      }
      return longest + 2;
    };
    const widths = this.columns.map((column, i) => Math.max(width(column, i), isOther ? 0 : this.widths[i]));
    this.widths = widths;
    this.scroller.style.setProperty("--columns", widths.map((ch) => `${ch}ch`).join(" "));
  }

  drawHead() {
    const cells = this.columns.map((column, i) => {
      const sorted = this.sort?.column === i ? (this.sort.up ? "ascending" : "descending") : null;
      const mark = sorted ? (this.sort?.up ? " ↑" : " ↓") : "";
      return h(
        "div",
        {
          class: `grid-cell ${isNumeric(column.type) ? "number" : ""}`,
          role: "columnheader",
          "aria-sort": sorted,
        },
        h(
          "button",
          { type: "button", title: column.type, onclick: () => this.sortBy(i) },
          column.name + mark,
        ),
      );
    });
    fill(this.head, cells);
  }

  sortBy(column: number) {
    if (this.sort?.column !== column) this.sort = { column, up: true };
    else this.sort = this.sort.up ? { column, up: false } : null;
    this.drawHead();
    this.arrange();
  }

  arrange() {
    this.order = this.rows;
    if (this.sort) {
      const { column, up } = this.sort;
      const sign = up ? 1 : -1;
      this.order = [...this.rows].sort((a, b) => sign * compareCells(a[column], b[column]));
    }
    this.canvas.style.height = `${this.order.length * ROW_PX}px`;
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW_PX) - SPARE_ROWS);
    const visible = Math.ceil(this.scroller.clientHeight / ROW_PX) + 2 * SPARE_ROWS;
    const last = Math.min(this.order.length, first + visible);
    while (this.canvas.children.length > last - first) this.canvas.lastChild?.remove();
    for (let i = first; i < last; i += 1) this.drawRow(i - first, i);
  }

  // Rows are used again: the same elements with other text.
  drawRow(slot: number, index: number): void {
    let row = this.canvas.children[slot] as HTMLElement | undefined;
    if (!row || row.children.length !== this.columns.length) {
      const made = h(
        "div",
        { class: "grid-row", role: "row" },
        this.columns.map(() => h("div", { role: "cell" })),
      );
      if (row) row.replaceWith(made);
      else this.canvas.append(made);
      row = made;
    }
    row.style.top = `${index * ROW_PX}px`;
    row.dataset.index = String(index);
    const cells = row.children;
    this.columns.forEach((column, i) => {
      const value = this.order[index][i];
      const kind = value === null ? " null" : isNumeric(column.type) ? " number" : "";
      cells[i].className = `grid-cell${kind}`;
      setText(cells[i], cellText(value).slice(0, 400));
    });
  }

  // The whole of a value that was cut.
  open(clicked: Element) {
    const cell = clicked.closest(".grid-cell");
    const line = cell?.parentElement;
    if (!cell || !line) return;
    const row = this.order[Number(line.dataset.index)];
    const at = [...line.children].indexOf(cell);
    if (row === undefined) return;
    this.detail.hidden = false;
    const text = cellText(row[at]);
    fill(this.detail, h("button", { class: "small", type: "button", onclick: () => copy(text) }, "Copy"));
    fill(this.detail, ...this.detail.childNodes, h("b", {}, `${this.columns[at].name}  `), text);
  }
}
