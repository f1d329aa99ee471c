// A log point on a line of source: values are written down whenever the line runs, and nothing stops.
import { post } from "../lib/api";
import { fill, h } from "../lib/dom";
import { shortFile } from "../lib/format";
import { link } from "../lib/state";
import { actionButton } from "./actions";
import type { Child } from "../types/page";

const SECONDS = 30;
const SQL = "SELECT timestamp, file, lineno, func, expression, value\nFROM python.logpoints\nORDER BY timestamp DESC\nLIMIT 200";

// Asks what to write down; `done` takes the form away.
export function logPointForm(target: number, file: string, lineno: number, done: () => void): HTMLElement {
  const said = h("span", { class: "quiet-text", role: "status" });
  const values = h("input", { type: "text", class: "mono", placeholder: "loss.item(), lr", "aria-label": "Expressions" });
  const condition = h("input", { type: "text", class: "mono", placeholder: "step % 10 == 0", "aria-label": "Only if" });
  const run = async (): Promise<Child> => {
    const expressions = values.value.trim();
    if (expressions === "") return "Name what is to be written down, as in loss.item(), lr";
    const code = { op: "log", code: "add", timeout: SECONDS, gil_timeout: SECONDS };
    const place = `kind=log\nplace=${file}:${lineno}\nparts=\nexpressions=${expressions}\nif=${condition.value.trim()}`;
    const { value, traceback, note } = await post("eval", { target, ...code, arguments: place });
    if (traceback) throw new Error(traceback.trim().split("\n").at(-1));
    return [value ?? note ?? "Set.", " ", h("a", { href: link("query", { q: SQL }) }, "Its values")];
  };
  const title = `Write values down whenever line ${lineno} runs; the program does not stop`;
  const add = actionButton({ text: "Log", right: "eval", kind: "primary small", title, run }, (what) => fill(said, what));
  const stop = h("button", { type: "button", class: "small quiet", onclick: done }, "Close");
  return h("div", { class: "log-point toolbar" }, h("span", {}, "At ", h("code", {}, `${shortFile(file)}:${lineno}`), " log"), values, "if", condition, add, stop, said);
}
