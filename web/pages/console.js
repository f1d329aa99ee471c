// Python's prompt in the running process. Its output comes here and not into the job's own.
import { fill, h } from "../lib/dom.js";
import { seconds } from "../lib/format.js";
import { isIncomplete, ReplSession, withCompletion } from "../lib/repl.js";
import { remember, remembered } from "../lib/state.js";
import { prose } from "../parts/states.js";

const MOST_PAST = 100;
const MOST_ENTRIES = 200;

export function mount({ root, target, signal }) {
  const past = remembered("console", []);
  let at = past.length;
  let running = false;
  const repl = new ReplSession(target);
  signal.addEventListener("abort", () => repl.close());
  const candidates = h("div", { class: "console-candidates mono quiet-text", role: "status" });
  const prompt = h("span", { class: "mono", "aria-hidden": "true" }, ">>>");
  const log = h("div", { class: "console-log", role: "log", "aria-live": "polite" });
  const input = h("textarea", {
    class: "console-input mono",
    rows: "3",
    spellcheck: "false",
    "aria-label": "Python code",
    placeholder: "Enter runs it, Tab completes, Ctrl+C interrupts, %magics lists helpers",
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
    { class: "primary", type: "button", onclick: () => (running ? repl.interrupt() : run()) },
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
        `Runs in process ${target}. Names of the program's `,
        h("code", {}, "__main__"),
        " can be used as they are; what you set is yours until you leave this page.",
      ),
      log,
      h("div", { class: "console-line" }, prompt, input),
      candidates,
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
    const isWhole = /\n\s*$/.test(input.value); // an empty line ends a block, as in Python
    const entry = h("div", { class: "console-entry" }, h("pre", { class: "code" }, code));
    setRunning(true);
    fill(candidates);
    input.value = ""; // what is typed meanwhile stays
    const printed = (output) => {
      show(entry);
      print(entry, output);
      log.scrollTop = log.scrollHeight;
    };
    try {
      const result = await repl.run(code, { isWhole, timeout: Number(timeout.value) || 10, printed, signal });
      if (isIncomplete(result)) return askForMore(code);
      print(entry, result);
      done(code, entry, answer(result));
    } catch (error) {
      if (signal.aborted) return;
      const hint = error.hint ? h("p", { class: "quiet-text" }, prose(error.hint)) : "";
      done(code, entry, [h("pre", { class: "error" }, error.message), hint]);
    } finally {
      setRunning(false);
    }
  }

  function setRunning(value) {
    running = value;
    button.textContent = value ? "Stop" : "Run";
  }

  function askForMore(code) {
    input.value = `${code}\n${input.value}`;
    prompt.textContent = "...";
  }

  function done(code, entry, parts) {
    if (past.at(-1) !== code) past.push(code);
    remember("console", past.slice(-MOST_PAST));
    at = past.length;
    prompt.textContent = ">>>";
    entry.append(...parts);
    show(entry);
    log.scrollTop = log.scrollHeight;
  }

  function show(entry) {
    if (entry.parentNode !== log) log.append(entry);
    while (log.children.length > MOST_ENTRIES) log.firstChild.remove();
  }

  async function complete() {
    const before = input.value.slice(0, input.selectionStart);
    const after = input.value.slice(input.selectionStart);
    try {
      const found = await repl.complete(before, signal);
      const text = withCompletion(before, found);
      input.value = text + after;
      input.setSelectionRange(text.length, text.length);
      fill(candidates, found.candidates.length > 1 ? found.candidates.join("   ") : "");
    } catch (error) {
      if (!signal.aborted) fill(candidates, error.message);
    }
  }

  input.addEventListener("keydown", (event) => {
    const hasSelection = input.selectionStart !== input.selectionEnd;
    const lastLine = input.value.slice(0, input.selectionStart).split("\n").at(-1);
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      run();
    } else if (event.key === "Tab" && !event.shiftKey && lastLine.trim()) {
      event.preventDefault();
      complete();
    } else if (event.key === "c" && event.ctrlKey && running && !hasSelection) {
      event.preventDefault();
      repl.interrupt();
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

// What the code printed goes on where it stopped.
function print(entry, { stdout, stderr }) {
  for (const [kind, text] of Object.entries({ output: stdout, error: stderr })) {
    if (!text) continue;
    if (entry.lastChild.className !== kind) entry.append(h("pre", { class: kind }));
    entry.lastChild.append(text);
  }
}

// What came of it, after what was printed.
function answer({ value, traceback, note, duration_us: took, gil_holder: holder }) {
  const parts = [];
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
