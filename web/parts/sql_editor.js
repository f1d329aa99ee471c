// A text area for SQL: coloured words behind it, completion of tables and columns below the caret.
import { fill, h } from "../lib/dom.js";
import { completions, tokens } from "../lib/sql_words.js";

export class SqlEditor {
  // `schema` is a Map that may be filled later (lib/schema.js); `run` is called by Ctrl+Enter.
  constructor({ value, schema, run, changed }) {
    this.schema = schema;
    this.run = run;
    this.changed = changed;
    this.items = [];
    this.chosen = 0;
    this.paint = h("pre", { class: "sql-paint", "aria-hidden": "true" });
    this.area = h("textarea", {
      class: "sql-area",
      spellcheck: "false",
      autocapitalize: "off",
      autocomplete: "off",
      "aria-label": "SQL",
      "aria-autocomplete": "list",
      "aria-controls": "sql-completions",
      value,
    });
    this.list = h("ul", { class: "sql-completions", id: "sql-completions", role: "listbox", hidden: true });
    this.node = h("div", { class: "sql-editor" }, this.paint, this.area, this.list);
    this.area.addEventListener("input", () => this.edited());
    this.area.addEventListener("keydown", (event) => this.key(event));
    this.area.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    this.area.addEventListener("click", () => this.close());
    this.draw();
  }

  get value() {
    return this.area.value;
  }

  set value(text) {
    this.area.value = text;
    this.close();
    this.draw();
    this.changed?.(text);
  }

  // What is selected, else all of it.
  get statement() {
    const { selectionStart: from, selectionEnd: to, value } = this.area;
    return (from < to ? value.slice(from, to) : value).trim();
  }

  edited() {
    this.draw();
    this.changed?.(this.area.value);
    const typed = /[\w.]$/.test(this.area.value.slice(0, this.area.selectionStart));
    if (typed) this.suggest();
    else this.close();
  }

  // The text again, with colours, and a mark where the word at the caret begins: the list is put there.
  draw(markAt = -1) {
    const parts = [];
    this.mark = null;
    for (const { text, kind, at } of tokens(this.area.value)) {
      if (markAt >= at && markAt < at + text.length) {
        this.mark = h("span", {});
        parts.push(
          h("span", { class: `sql-${kind}` }, text.slice(0, markAt - at), this.mark, text.slice(markAt - at)),
        );
      } else {
        parts.push(h("span", { class: `sql-${kind}` }, text));
      }
    }
    if (markAt >= this.area.value.length) parts.push((this.mark = h("span", {})));
    fill(this.paint, parts, "\n");
  }

  suggest() {
    const caret = this.area.selectionStart;
    const { from, items } = completions(this.area.value, caret, this.schema);
    const whole = items.length === 1 && items[0].label === this.area.value.slice(from, caret);
    if (items.length === 0 || whole) return this.close();
    this.from = from;
    this.items = items;
    this.chosen = 0;
    this.draw(from);
    this.drawList();
    const left = Math.min(this.mark?.offsetLeft ?? 0, Math.max(0, this.node.clientWidth - 330));
    this.list.style.left = `${left}px`;
    this.list.style.top = `${(this.mark?.offsetTop ?? 0) + 22}px`;
  }

  drawList() {
    fill(
      this.list,
      this.items.map(({ label, kind, doc }, i) =>
        h(
          "li",
          {
            role: "option",
            id: `sql-option-${i}`,
            "aria-selected": String(i === this.chosen),
            onmousedown: (event) => {
              event.preventDefault();
              this.accept(i);
            },
          },
          h("b", {}, label),
          h("small", {}, doc || kind),
        ),
      ),
    );
    this.list.hidden = false;
    this.area.setAttribute("aria-activedescendant", `sql-option-${this.chosen}`);
    this.list.children[this.chosen]?.scrollIntoView({ block: "nearest" });
  }

  close() {
    this.items = [];
    this.list.hidden = true;
    this.area.removeAttribute("aria-activedescendant");
  }

  // As typed by hand, so that undo undoes it.
  accept(i) {
    const { label } = this.items[i];
    const caret = this.area.selectionStart;
    this.area.setSelectionRange(this.from, caret);
    this.close();
    if (!document.execCommand("insertText", false, label))
      this.area.setRangeText(label, this.from, caret, "end");
    this.close();
    this.draw();
    this.changed?.(this.area.value);
  }

  key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.close();
      this.run();
    } else if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      this.suggest();
    } else if (this.items.length > 0) {
      this.keyInList(event);
    }
  }

  keyInList(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 };
    if (event.key in steps) {
      event.preventDefault();
      this.chosen = Math.min(this.items.length - 1, Math.max(0, this.chosen + steps[event.key]));
      this.drawList();
    } else if (event.key === "Enter" || event.key === "Tab") {
      event.preventDefault();
      this.accept(this.chosen);
    } else if (event.key === "Escape") {
      event.preventDefault();
      this.close();
    }
  }
}
