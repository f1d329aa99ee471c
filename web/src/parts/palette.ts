// Ctrl+K: everything that one can go to or do, by typing a part of its name.
import { fill, h } from "../lib/dom";
import { link, makeHash } from "../lib/state";
import { jobName, shortCommand, targets } from "../lib/targets";
import { PAGES } from "../routes";

export interface PaletteEntry {
  text: string;
  kind: string;
  run: () => void;
}

const MOST = 12;
const go = (hash: string) => () => void (location.hash = hash);

function entries(more: PaletteEntry[]): PaletteEntry[] {
  const pages = PAGES.map(({ name, title }) => ({ text: title, kind: "page", run: go(link(name)) }));
  const jobs = [...new Set((targets.list ?? []).map(jobName).filter((name) => name !== null))].map((name) => ({
    text: name,
    kind: "job",
    run: go(makeHash("cluster", new URLSearchParams({ job: name }))),
  }));
  const processes = (targets.list ?? []).map(({ pid, command, job }) => ({
    text: `${pid}${job?.rank === null || job?.rank === undefined ? "" : ` rank ${job.rank}`}  ${shortCommand(command)}`,
    kind: "process",
    run: go(link("overview", { target: pid })),
  }));
  return [...pages, ...more, ...jobs, ...processes];
}

// Every word occurs; what begins with the first one comes first.
export function matching(list: PaletteEntry[], typed: string): PaletteEntry[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const found = list.filter(({ text, kind }) => words.every((word) => `${text} ${kind}`.toLowerCase().includes(word)));
  const rank = ({ text }: PaletteEntry) => (text.toLowerCase().startsWith(words[0] ?? "") ? 0 : 1);
  return found.sort((a, b) => rank(a) - rank(b)).slice(0, MOST);
}

export function openPalette(more: PaletteEntry[]): void {
  if (document.querySelector("dialog.palette")) return;
  const all = entries(more);
  let shown: PaletteEntry[] = [];
  let at = 0;
  const list = h("ul", { role: "listbox", id: "palette-list", "aria-label": "Commands" });
  const input = h("input", {
    type: "text",
    role: "combobox",
    "aria-label": "Go to or do",
    "aria-expanded": "true",
    "aria-controls": "palette-list",
    placeholder: "Page, job, process, command…",
    autocomplete: "off",
    spellcheck: "false",
  });
  const draw = () => {
    at = Math.max(0, Math.min(at, shown.length - 1));
    fill(
      list,
      shown.map(({ text, kind }, i) =>
        h(
          "li",
          { role: "option", id: `palette-${i}`, "aria-selected": String(i === at), onclick: () => choose(i) },
          h("span", {}, text),
          h("span", { class: "quiet-text" }, kind),
        ),
      ),
    );
    if (shown.length > 0) input.setAttribute("aria-activedescendant", `palette-${at}`);
    else input.removeAttribute("aria-activedescendant");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  const search = () => {
    shown = matching(all, input.value);
    at = 0;
    draw();
  };
  const choose = (i: number) => {
    const entry = shown[i];
    dialog.close();
    entry?.run();
  };
  input.addEventListener("input", search);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) at += step;
    else if (event.key === "Enter") choose(at);
    else return;
    event.preventDefault();
    if (dialog.open) draw();
  });
  const dialog: HTMLDialogElement = h(
    "dialog",
    {
      class: "palette",
      "aria-label": "Commands",
      onclose: () => dialog.remove(),
      onclick: (event) => event.target === dialog && dialog.close(),
    },
    input,
    list,
  );
  document.body.append(dialog);
  dialog.showModal();
  search();
}
