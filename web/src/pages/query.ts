// SQL over everything that is known: an editor, the rows as a grid or a chart, and what was asked before.
import { asFailure, query, queryBytes } from "../lib/api";
import { download, fill, h } from "../lib/dom";
import { count, seconds } from "../lib/format";
import { History } from "../lib/query_history";
import { forgetSchema, loadSchema } from "../lib/schema";
import { setParams } from "../lib/state";
import { check, choice, tabs } from "../parts/controls";
import { Grid } from "../parts/grid";
import { SchemaBrowser } from "../parts/schema_browser";
import { ResultChart } from "../parts/result_chart";
import { isStore, sourcePicker } from "../parts/source_picker";
import { sqlEditor } from "../parts/sql_editor";
import { empty, Place } from "../parts/states";
import type { Rows } from "../types/api";
import type { Option, PageContext } from "../types/page";
import type { Schema } from "../types/tables";

const FIRST = "SELECT func, file, lineno\nFROM python.backtrace\nORDER BY depth\nLIMIT 20";
const WATCH_MS = 2000;
const TYPES: Record<string, string> = {
  csv: "text/csv",
  json: "application/json",
  jsonl: "application/jsonl",
  markdown: "text/markdown",
  arrow: "application/vnd.apache.arrow.stream",
  parquet: "application/vnd.apache.parquet",
};
const FORMATS: Option[] = [
  ["", "Download…"],
  ["csv", "CSV"],
  ["json", "JSON"],
  ["jsonl", "JSON lines"],
  ["markdown", "Markdown"],
  ["arrow", "Arrow"],
  ["parquet", "Parquet"],
];

export function mount({ root, params, target, signal, live }: PageContext) {
  const schema: Schema = new Map();
  const place = new Place(
    empty(
      "Ask something",
      "Run or Ctrl+Enter runs the query. Tables and columns are completed while you type; all of DuckDB's SQL works.",
    ),
  );
  const store = isStore(params);
  const grid = new Grid({ maxHeight: "60vh" });
  const chart = new ResultChart(signal);
  const about = h("span", { class: "quiet-text", role: "status" });
  const output = h("div", {});
  const history = new History();
  let result: Rows | null = null;
  let running: AbortController | null = null;

  const editor = sqlEditor({
    value: params.get("q") ?? history.latest() ?? FIRST,
    schema,
    signal,
    run: () => run(),
    changed: (text) => setParams({ q: text }),
  });
  const button = h(
    "button",
    {
      class: "primary",
      type: "button",
      title: "Ctrl+Enter",
      onclick: () => (running ? running.abort() : run()),
    },
    "Run",
  );
  const watch = check("Every 2 s", params.get("watch") === "1", (on) => {
    setParams({ watch: on });
    again();
  });
  const saving = choice("Download", FORMATS, "", (format) => save(format));
  const kind = tabs(
    "View",
    [
      ["grid", "Table"],
      ["chart", "Chart"],
    ],
    params.get("view") ?? "grid",
    (value) => {
      setParams({ view: value === "grid" ? "" : value });
      showResult();
    },
  );
  const past = h("div", { class: "history" });

  const browser = new SchemaBrowser((text) => editor.insert(text));
  const main = h(
    "div",
    { class: "page query-main" },
    editor.node,
    h(
      "div",
      { class: "toolbar" },
      button,
      watch.node,
      sourcePicker(params, signal),
      kind.node,
      h("span", { class: "grow" }),
      about,
      saving.node,
    ),
    place.node,
    h(
      "details",
      { class: "card", open: params.get("q") ? null : true },
      h("summary", {}, "Examples and what you asked before"),
      past,
    ),
  );
  fill(root, h("div", { class: "query-split" }, browser.node, main));

  async function run({ isWatch = false } = {}) {
    const sql = editor.statement;
    if (!sql) return;
    running?.abort();
    const mine = new AbortController();
    running = mine;
    if (!isWatch) button.textContent = "Stop";
    const started = performance.now();
    try {
      result = await query(sql, { target, store, signal: AbortSignal.any([mine.signal, signal]) });
      about.textContent = `${count(result.rows.length, "row")} in ${seconds((performance.now() - started) / 1000)}`;
      place.fail(null);
      showResult();
      if (!isWatch) drawHistory(history.add(sql));
    } catch (error) {
      if (signal.aborted) return;
      const failure = asFailure(error);
      const isStopped = failure.name === "AbortError";
      about.textContent = isStopped ? "stopped" : "";
      if (!isStopped) place.fail(failure);
    } finally {
      if (running === mine) {
        running = null;
        button.textContent = "Run";
      }
    }
  }

  function showResult() {
    if (!result) return;
    const shown = kind.value() === "chart" ? chart : grid;
    shown.set(result);
    if (output.firstChild !== shown.node) fill(output, shown.node);
    place.show(output);
  }

  async function save(format: string) {
    saving.node.value = "";
    if (!format) return;
    try {
      download(
        `query.${format === "markdown" ? "md" : format}`,
        TYPES[format],
        await queryBytes(editor.statement, format, { target, store, signal }),
      );
    } catch (error) {
      if (!signal.aborted) place.fail(asFailure(error));
    }
  }

  function drawHistory(entries = history.all()) {
    const use = (sql: string) => {
      editor.value = sql;
      editor.focus();
      run();
    };
    fill(
      past,
      entries.map(({ sql, title, pinned }) =>
        h(
          "div",
          { class: "past" },
          h(
            "button",
            { type: "button", class: "past-sql", title: sql, onclick: () => use(sql) },
            title ? h("b", {}, title) : null,
            h("code", {}, sql.replace(/\s+/g, " ")),
          ),
          title
            ? null
            : h(
                "button",
                {
                  type: "button",
                  class: "quiet small",
                  "aria-pressed": String(pinned),
                  onclick: () => drawHistory(history.pin(sql)),
                },
                pinned ? "Kept" : "Keep",
              ),
        ),
      ),
    );
  }

  drawHistory();
  forgetSchema();
  loadSchema().then(
    (known) => {
      known.forEach((value, key) => schema.set(key, value));
      browser.show(known);
    },
    () => {}, // without it there is no completion, and the query will say why
  );
  // What an address says is only typed: anybody can make a link, and it would run with the reader's rights.
  const again = live(async () => {
    if (watch.on() && result && !running) await run({ isWatch: true });
  }, WATCH_MS);
}
