// Where every thread is now. Read from outside: it works when the interpreter is stuck, and needs no probe.
import { asFailure, get, records } from "../lib/api";
import { copy, fill, h } from "../lib/dom";
import { count, shortFile } from "../lib/format";
import { setParams } from "../lib/state";
import { classOf } from "../lib/flame_palette";
import { loadStacks, NOT_OURS, stackText } from "../lib/stacks";
import { targets } from "../lib/targets";
import { check } from "../parts/controls";
import { logPointForm } from "../parts/log_point";
import { card, Place } from "../parts/states";
import type { StacksView, Thread, ThreadFrame } from "../types/flame";
import type { Changes, Child, PageContext } from "../types/page";

const EVERY_MS = 1000;
const LONG_VALUE = 300; // characters
const SOURCE_LINES = 4; // before and after the one that runs

export function mount({ root, params, target, signal, live }: PageContext<number>) {
  const place = new Place();
  const list = h("div", { class: "threads" });
  const note = h("span", { class: "quiet-text" });
  const native = check("Native frames", params.get("native") === "1", (on) => changed({ native: on }));
  const search = h("input", {
    type: "search",
    placeholder: "Filter by function or file",
    "aria-label": "Filter",
    value: params.get("find") ?? "",
  });
  // Above the stacks, which are built anew while they change.
  const form = h("div", {});
  const ask = (file: string, line: number) => {
    fill(form, card(null, logPointForm(target, file, line, () => fill(form))));
    form.querySelector("input")?.focus();
  };
  const view: StacksView = { target, signal, open: new Map(), frozen: false, ask };
  let threads: Thread[] = [];
  let shown = "";

  const freeze = h(
    "button",
    { type: "button", "aria-pressed": "false", title: "Keep this picture" },
    "Freeze",
  );
  const copyAll = h(
    "button",
    { type: "button", onclick: () => copy(threads.map(stackText).join("\n\n")) },
    "Copy as text",
  );
  fill(
    root,
    h("div", { class: "toolbar" }, native.node, search, freeze, copyAll, h("span", { class: "grow" }), note),
    form,
    place.node,
  );

  function changed(change: Changes) {
    setParams(change);
    again();
  }
  search.addEventListener("input", () => {
    setParams({ find: search.value });
    draw();
  });
  freeze.addEventListener("click", () => {
    view.frozen = !view.frozen;
    freeze.setAttribute("aria-pressed", String(view.frozen));
    if (!view.frozen) again();
  });

  // Built anew only when something differs: selected text and opened frames stay.
  function draw() {
    const word = search.value.toLowerCase();
    const fits = ({ name, frames }: Thread) =>
      !word ||
      `${name} ${frames.map(({ func, file }) => `${func} ${file}`).join(" ")}`.toLowerCase().includes(word);
    const seen = threads.filter(fits);
    const text = JSON.stringify(seen);
    if (text === shown) return;
    shown = text;
    fill(
      list,
      seen.map((thread) => threadCard(thread, view)),
    );
    if (seen.length === 0)
      fill(
        list,
        h(
          "p",
          { class: "quiet-text" },
          threads.length ? "No thread fits the filter." : "No Python thread was found.",
        ),
      );
  }

  const again = live(
    async () => {
      if (view.frozen) return;
      const started = performance.now();
      threads = await loadStacks(target, { native: native.on(), signal });
      note.textContent = `${count(threads.length, "thread")}, read in ${Math.round(performance.now() - started)} ms`;
      draw();
      place.show(list);
    },
    EVERY_MS,
    place,
  );
}

function threadCard(thread: Thread, view: StacksView): HTMLElement {
  const { tid, name, gil, state, waits, task, frames } = thread;
  const running = state === "running";
  return h(
    "section",
    { class: "card thread", "data-tid": String(tid) },
    h(
      "h2",
      {},
      h("span", {}, name || "thread"),
      h("span", { class: "quiet-text mono" }, ` ${tid}`),
      gil ? h("span", { class: "badge accent" }, "has the GIL") : null,
      state ? h("span", { class: `badge ${running ? "good" : ""}` }, state) : null,
      waits ? h("span", { class: "badge mono", title: "What it waits for in the kernel" }, waits) : null,
      task ? h("span", { class: "badge", title: "asyncio task" }, task) : null,
    ),
    h(
      "ol",
      { class: "frames" },
      frames.map((frame, i) => frameRow(frame, tid, frames.length - 1 - i, view)),
    ),
  );
}

// Frames are known by their place from the outermost one: a loop's frame stays while its callees change.
function frameRow(frame: ThreadFrame, tid: number, level: number, view: StacksView): HTMLElement {
  const { func, file, lineno, isNative, depth } = frame;
  const place = `${shortFile(file ?? "")}${lineno ? `:${lineno}` : ""}`;
  const text = [h("span", { class: "func" }, func), h("span", { class: "place-name", title: file }, place)];
  const library = classOf("python", file ?? "") === "own" ? "" : "library";
  if (isNative || depth === null) return h("li", { class: `frame native ${isNative ? "" : library}` }, text);
  const key = `${tid} ${level} ${func}`;
  const locals = h("div", { class: "locals", hidden: true });
  const button = h(
    "button",
    { type: "button", "aria-expanded": "false", title: "Source and local variables" },
    text,
  );
  const open = async () => {
    button.setAttribute("aria-expanded", "true");
    locals.hidden = false;
    fill(locals, view.open.get(key) ?? "…"); // what was seen last, until it is read again
    view.open.set(
      key,
      await Promise.all([readSource(view, file, lineno), readLocals(view, tid, level, func)]),
    );
    fill(locals, view.open.get(key));
  };
  button.addEventListener("click", () => {
    if (locals.hidden) return open();
    locals.hidden = true;
    view.open.delete(key);
    button.setAttribute("aria-expanded", "false");
  });
  if (view.open.has(key)) open();
  return h("li", { class: `frame ${library}` }, button, locals);
}

// An optimizer may be a page long.
function valueText(text: string): HTMLElement {
  if (text.length <= LONG_VALUE) return h("dd", {}, text);
  const all = () => {
    fill(node, text);
    node.tabIndex = -1;
    node.focus();
  };
  const more = h("button", { type: "button", class: "small", onclick: all }, "all of it");
  const node = h("dd", {}, `${text.slice(0, LONG_VALUE)}… `, more);
  return node;
}

const isProbed = (target: number) => Boolean(targets.find(target)?.how);

// Beside it a log point can be set, where there is a probe that takes it.
function lineNumber(number: number, hasProbe: boolean, ask: (number: number) => void): HTMLElement {
  const text = `${String(number).padStart(5)}  `;
  if (!hasProbe) return h("span", { class: "quiet-text" }, text);
  const title = `Log values at line ${number}`;
  return h("button", { type: "button", class: "line-number", title, "aria-label": title, onclick: () => ask(number) }, text);
}

// The line that runs and those around it; nothing when the file cannot be read.
async function readSource(
  { target, signal, ask }: StacksView,
  file: string,
  lineno: number | null,
): Promise<Child> {
  if (!file || !lineno) return null;
  try {
    const at = { target: String(target), file, line: String(lineno), around: String(SOURCE_LINES) };
    const { first_line: first, lines } = await get(`source?${new URLSearchParams(at)}`, signal);
    return h(
      "pre",
      { class: "source" },
      lines.map((line, i) =>
        h(
          "div",
          { class: first + i === lineno ? "current" : null },
          lineNumber(first + i, isProbed(target), (number) => ask(file, number)),
          line,
        ),
      ),
    );
  } catch {
    return null;
  }
}

async function readLocals(
  { target, signal }: StacksView,
  tid: number,
  level: number,
  func: string,
): Promise<Child> {
  try {
    const sql = `SELECT func, locals FROM python.stacks WHERE tid = ${Number(tid)} AND ${NOT_OURS} ORDER BY depth DESC`;
    const rows: { func: string; locals: string | null }[] = await records(sql, { target, signal });
    const row = rows[level];
    if (row?.func !== func)
      return h("span", { class: "quiet-text" }, "The thread has gone on to another place.");
    const values: [string, string][] = Object.entries(JSON.parse(row.locals ?? "{}"));
    if (values.length === 0) return h("span", { class: "quiet-text" }, "No local variables.");
    return h(
      "dl",
      {},
      values.map(([name, text]) => [h("dt", {}, name), valueText(text)]),
    );
  } catch (error) {
    return h("span", { class: "quiet-text" }, asFailure(error).message);
  }
}
