// All tables with what their columns mean, and the latest rows of one of them.
import { asFailure, query } from "../lib/api";
import { fill, h } from "../lib/dom";
import { count } from "../lib/format";
import { forgetSchema, loadSchema } from "../lib/schema";
import { link, setParams } from "../lib/state";
import { Grid } from "../parts/grid";
import { empty, failure, loading, Place } from "../parts/states";
import type { Column } from "../types/api";
import type { PageContext } from "../types/page";
import type { Schema, Table } from "../types/tables";

const EVERY_MS = 3000;
const ROWS = 500;
const FIRST = "system.process";

// The latest first where there is a time.
export function previewSql(name: string, columns: Column[]): string {
  const order = columns.some((column) => column.name === "timestamp") ? "\nORDER BY timestamp DESC" : "";
  return `SELECT *\nFROM ${name}${order}\nLIMIT ${ROWS}`;
}

export function mount({ root, params, target, signal, live }: PageContext) {
  const filter = h("input", { type: "search", placeholder: "Filter tables", "aria-label": "Filter tables" });
  const list = h("div", { class: "table-list", role: "listbox", "aria-label": "Tables" });
  const detail = h("div", { class: "table-detail page" }, loading());
  fill(root, h("div", { class: "split" }, h("div", { class: "card side" }, filter, list), detail));
  let schema: Schema = new Map();
  let chosen = params.get("table");
  let shown: { place: Place; refresh: () => Promise<void> } | null = null; // the chosen table

  function drawList() {
    const word = filter.value.toLowerCase();
    const found = [...schema].filter(([name, { doc }]) => `${name} ${doc}`.toLowerCase().includes(word));
    fill(
      list,
      found.map(([name, { doc, kind }]) =>
        h(
          "button",
          {
            type: "button",
            role: "option",
            "aria-selected": String(name === chosen),
            title: doc,
            onclick: () => choose(name),
          },
          h("span", { class: "mono" }, name),
          h("span", { class: "badge" }, kind),
        ),
      ),
    );
  }

  function showChosen() {
    list.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }

  // What a probe reads in the running job is read when somebody asks for it here: a link is not enough.
  function isCostly({ kind, origin }: Table) {
    return kind === "live" && origin === "probe";
  }

  function choose(name: string, { byAddress = false } = {}) {
    const table = schema.get(name);
    if (!table) return;
    chosen = name;
    setParams({ table: name });
    drawList();
    const place = new Place();
    const grid = new Grid({ maxHeight: "50vh" });
    const sql = previewSql(name, table.columns);
    fill(detail, describe(name, table, sql), place.node);
    const refresh = async () => {
      const result = await query(sql, { target, signal });
      if (chosen !== name) return;
      grid.set(result);
      place.fail(null);
      place.show(result.rows.length > 0 ? grid.node : empty("No rows", reason(name, table)));
    };
    const start = () => {
      shown = { place, refresh };
      again();
    };
    if (!byAddress || !isCostly(table)) return start();
    shown = null;
    const button = h("button", { type: "button", class: "primary", onclick: start }, "Read them");
    const what = "The probe looks for these rows in the memory of the running job.";
    place.show(h("div", {}, empty("Not read yet", what), button));
  }

  filter.addEventListener("input", drawList);
  const again = live(async () => {
    if (!shown) return;
    const { place, refresh } = shown;
    try {
      await refresh();
    } catch (error) {
      if (!signal.aborted) place.fail(asFailure(error));
    }
  }, EVERY_MS);
  forgetSchema();
  loadSchema().then(
    (known) => {
      schema = known;
      choose(chosen !== null && known.has(chosen) ? chosen : FIRST, { byAddress: true });
      showChosen();
    },
    (error) => !signal.aborted && fill(detail, failure(asFailure(error))),
  );
}

function describe(name: string, { doc, kind, origin, columns }: Table, sql: string): HTMLElement {
  const rows = columns.map((column) =>
    h(
      "tr",
      {},
      h("td", { class: "mono" }, column.name),
      h("td", { class: "mono quiet-text" }, column.type),
      h("td", {}, column.doc, column.unit ? h("span", { class: "quiet-text" }, ` (${column.unit})`) : null),
    ),
  );
  return h(
    "section",
    { class: "card" },
    h(
      "h2",
      {},
      h("span", { class: "mono" }, name),
      " ",
      h("span", { class: "badge" }, kind),
      " ",
      h("span", { class: "badge" }, `rows from ${origin}`),
    ),
    h("p", {}, doc, " ", h("a", { href: link("query", { q: sql }) }, "Ask it in SQL")),
    h(
      "details",
      {},
      h("summary", {}, count(columns.length, "column")),
      h("div", { class: "scroll-x" }, h("table", { class: "plain keep" }, h("tbody", {}, rows))),
    ),
  );
}

// Why a table may be empty, and what fills it.
function reason(name: string, { origin }: Table): string {
  if (name.startsWith("python.torch"))
    return "Switch tracing on: `probing -t <pid> config probing.torch.profiling=on`";
  if (name === "python.samples" || name === "python.flame")
    return "Switch sampling on: `probing -t <pid> config probing.sample_rate=0.1`";
  if (name === "training_logs" || name === "python.metrics")
    return "The job fills it by `probing.log(loss=…)`, TensorBoard or wandb.";
  if (name === "python.spans") return "The job fills it by `probing.span(…)` and `probing.event(…)`.";
  if (name.startsWith("crash.")) return "No target has ended since probingd started.";
  return origin === "probe"
    ? "Its rows come from the probe: `probing -t <pid> inject`"
    : "Nothing was recorded yet.";
}
