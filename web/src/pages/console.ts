// Python's prompt in the running process. Its output comes here and not into the job's own.
import { asFailure } from "../lib/api";
import { fill, h } from "../lib/dom";
import { seconds } from "../lib/format";
import { isIncomplete, ReplSession } from "../lib/repl";
import { remember, remembered } from "../lib/state";
import { PythonPrompt } from "../parts/python_editor";
import { prose } from "../parts/states";
import type { EvalAnswer, Printed } from "../types/api";
import type { PageContext } from "../types/page";

const MOST_PAST = 100;
const MOST_ENTRIES = 200;

export function mount({ root, target, signal }: PageContext<number>) {
  const past: string[] = remembered("console", []);
  let running = false;
  const repl = new ReplSession(target);
  signal.addEventListener("abort", () => repl.close());
  const notice = h("div", { class: "console-notice quiet-text", role: "status" });
  const prompt = h("span", { class: "mono", "aria-hidden": "true" }, ">>>");
  const log = h("div", { class: "console-log", role: "log", "aria-live": "polite" });
  const line = new PythonPrompt({
    past,
    signal,
    run: () => void run(),
    interrupt: () => {
      if (running) void repl.interrupt();
      return running;
    },
    clear: () => fill(log),
    complete: (text) => complete(text),
  });
  const input = line.editor;
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
      h("div", { class: "console-line" }, prompt, input.node),
      notice,
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
    fill(notice);
    input.value = ""; // what is typed meanwhile stays
    const printed = (output: Printed) => {
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
      const { message, hint } = asFailure(error);
      const next = hint ? h("p", { class: "quiet-text" }, prose(hint)) : "";
      done(code, entry, [h("pre", { class: "error" }, message), next]);
    } finally {
      setRunning(false);
    }
  }

  function setRunning(value: boolean) {
    running = value;
    button.textContent = value ? "Stop" : "Run";
  }

  function askForMore(code: string) {
    line.goOn(code);
    prompt.textContent = "...";
  }

  function done(code: string, entry: HTMLElement, parts: (Node | string)[]): void {
    if (past.at(-1) !== code) past.push(code);
    past.splice(0, past.length - MOST_PAST);
    remember("console", past);
    prompt.textContent = ">>>";
    entry.append(...parts);
    show(entry);
    log.scrollTop = log.scrollHeight;
  }

  function show(entry: HTMLElement) {
    if (entry.parentNode !== log) log.append(entry);
    while (log.children.length > MOST_ENTRIES) log.firstChild?.remove();
  }

  async function complete(text: string) {
    try {
      return await repl.complete(text, signal);
    } catch (error) {
      if (!signal.aborted) fill(notice, asFailure(error).message);
      return null;
    }
  }

  input.focus();
}

// What the code printed goes on where it stopped.
function print(entry: HTMLElement, { stdout, stderr }: Printed): void {
  for (const [kind, text] of Object.entries({ output: stdout, error: stderr })) {
    if (!text) continue;
    const last = entry.lastElementChild;
    if (last?.className === kind) last.append(text);
    else entry.append(h("pre", { class: kind }, text));
  }
}

// What came of it, after what was printed.
function answer({ value, traceback, note, duration_us: took, gil_holder: holder }: EvalAnswer) {
  const parts = [];
  if (value !== undefined && value !== null && value !== "None")
    parts.push(h("pre", { class: "value" }, value));
  if (traceback) parts.push(h("pre", { class: "error" }, traceback));
  if (note) parts.push(h("p", { class: "quiet-text" }, note));
  if (holder)
    parts.push(
      h("pre", { class: "error" }, `thread ${holder.tid} ${holder.name} has the GIL:\n${holder.stack.join("\n")}`),
    );
  if (took !== undefined) parts.push(h("span", { class: "quiet-text took" }, seconds(took / 1e6)));
  return parts;
}
