// Python in the running process. Its output comes here and not into the job's own.
import { post } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { seconds } from "../lib/format.js";
import { remember, remembered } from "../lib/state.js";
import { prose } from "../parts/states.js";

const MOST_PAST = 100;
const MOST_ENTRIES = 200;

export function mount({ root, target, signal }) {
  const past = remembered("console", []);
  let at = past.length;
  let running = null;
  const log = h("div", { class: "console-log", role: "log", "aria-live": "polite" });
  const input = h("textarea", {
    class: "console-input mono",
    rows: "3",
    spellcheck: "false",
    "aria-label": "Python code",
    placeholder: "Enter runs it, Shift+Enter is a new line",
  });
  const timeout = h("input", {
    type: "number",
    min: "0.1",
    max: "3600",
    step: "any",
    value: "10",
    "aria-label": "timeout in seconds",
  });
  const button = h(
    "button",
    { class: "primary", type: "button", onclick: () => (running ? running.abort() : run()) },
    "Run",
  );
  fill(
    root,
    h(
      "div",
      { class: "card console" },
      h(
        "p",
        { class: "quiet-text" },
        `Runs in process ${target}, in a namespace of the probe; names of the program are in `,
        h("code", {}, "sys.modules['__main__']"),
        ".",
      ),
      log,
      h("div", { class: "console-line" }, h("span", { class: "mono", "aria-hidden": "true" }, ">>>"), input),
      h(
        "div",
        { class: "toolbar" },
        button,
        h("label", {}, "at most", timeout, "seconds"),
        h("button", { type: "button", onclick: () => fill(log) }, "Clear"),
      ),
    ),
  );

  async function run() {
    const code = input.value.trimEnd();
    if (!code || running) return;
    if (past.at(-1) !== code) past.push(code);
    remember("console", past.slice(-MOST_PAST));
    at = past.length;
    input.value = "";
    const entry = h("div", { class: "console-entry" }, h("pre", { class: "code" }, code));
    log.append(entry);
    while (log.children.length > MOST_ENTRIES) log.firstChild.remove();
    running = new AbortController();
    button.textContent = "Stop";
    try {
      const body = { target, code, timeout: Number(timeout.value) || 10 };
      entry.append(...answer(await post("eval", body, AbortSignal.any([running.signal, signal]))));
    } catch (error) {
      if (signal.aborted) return;
      const text = error.name === "AbortError" ? "Stopped." : error.message;
      entry.append(
        h("pre", { class: "error" }, text),
        error.hint ? h("p", { class: "quiet-text" }, prose(error.hint)) : "",
      );
    }
    running = null;
    button.textContent = "Run";
    log.scrollTop = log.scrollHeight;
  }

  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      run();
    } else if (
      (event.key === "ArrowUp" || event.key === "ArrowDown") &&
      !input.value.includes("\n") &&
      past.length > 0
    ) {
      event.preventDefault();
      at = Math.min(past.length, Math.max(0, at + (event.key === "ArrowUp" ? -1 : 1)));
      input.value = past[at] ?? "";
    }
  });
  input.focus({ preventScroll: true });
}

// What came of it, in the order in which Python would have printed it.
function answer({ stdout, stderr, value, traceback, note, duration_us: took, gil_holder: holder }) {
  const parts = [];
  if (stdout) parts.push(h("pre", {}, stdout));
  if (stderr) parts.push(h("pre", { class: "error" }, stderr));
  if (value !== undefined && value !== null && value !== "None")
    parts.push(h("pre", { class: "value" }, value));
  if (traceback) parts.push(h("pre", { class: "error" }, traceback));
  if (note) parts.push(h("p", { class: "quiet-text" }, note));
  if (holder)
    parts.push(
      h("pre", { class: "error" }, `thread ${holder.tid} ${holder.name} has the GIL:\n${holder.stack}`),
    );
  if (took !== undefined) parts.push(h("span", { class: "quiet-text took" }, seconds(took / 1e6)));
  return parts;
}
