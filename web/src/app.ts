// The frame around the pages: menu, choice of the target, and which page is shown.
//
// A page is a module of pages/ with mount({root, params, target, signal, live}): it builds its elements in
// `root` and stops when `signal` says so. `target` is a pid or null (all targets), `params` are those of
// the address, live(task, ms, place) asks again and again while the page is seen. What the server can tell
// by itself is followed (lib/stream.ts).
import "./first";
import "uplot/dist/uPlot.min.css"; // ours has the last word
import "./style/base.css";
import "./style/parts.css";
import "./style/pages.css";
import { asFailure } from "./lib/api";
import { fill, h } from "./lib/dom";
import { isPaused, poll, setPaused } from "./lib/poll";
import { current, link, makeHash, setParams } from "./lib/state";
import { targets } from "./lib/targets";
import { makeMenu, showHelp } from "./parts/menu";
import { TargetPicker } from "./parts/target_picker";
import { empty, failure, loading } from "./parts/states";
import { pageOf, PAGES } from "./routes";
import type { Place } from "./parts/states";
import type { Failure, PageContext, Route } from "./types/page";

const menu = makeMenu();
const picker = new TargetPicker(chooseTarget);
const pauseButton = h("button", { class: "status", type: "button", onclick: () => togglePause() });
const heading = h("h1", { tabindex: "-1" });
const content = h("main", { id: "content" });

let mounted: { key: string; stop: AbortController; stale?: boolean } = {
  key: "",
  stop: new AbortController(),
};

function chooseTarget(pid: number | null) {
  const { page, params } = current();
  const kept = new URLSearchParams(params);
  if (pid) kept.set("target", String(pid));
  else kept.delete("target");
  location.hash = makeHash(page, kept);
}

function targetOf(params: URLSearchParams) {
  const pid = Number(params.get("target"));
  return Number.isInteger(pid) && pid > 0 ? pid : null;
}

// A page that needs a target gets the first that lives when the address names none.
function pickTarget(page: Route, params: URLSearchParams): number | null {
  const named = targetOf(params);
  if (named || !page.needsTarget) return named;
  const first = targets.live[0]?.pid ?? null;
  if (first) setParams({ target: first });
  return first;
}

function missingTarget() {
  if (targets.list === null) return targets.error ? failure(targets.error) : loading();
  return empty(
    "No process is probed on this host",
    "Choose one by its pid above: stacks and flame graphs need no probe. Or enter it, and it is listed here:",
    ["probing -t <pid> inject", "probing run -- python train.py"],
  );
}

async function show() {
  const { page: name, params } = current();
  const page = pageOf(name);
  const target = pickTarget(page, params);
  picker.show(target, page.needsTarget);
  const key = `${page.name} ${target} ${page.needsTarget && !target ? "waits" : ""}`;
  menu.select(page.name);
  if (mounted.key === key && !mounted.stale) return;
  mounted.stop.abort();
  const stop = new AbortController();
  const { signal } = stop;
  mounted = { key, stop };
  document.title = `${page.title} – Probing`;
  fill(heading, page.title);
  const root = h("div", { class: `page page-${page.name}` });
  fill(content, root);
  if (page.needsTarget && !target) {
    fill(root, missingTarget());
    mounted.stale = true;
    return;
  }
  try {
    const { mount } = await page.load();
    if (!signal.aborted) mount(makeContext({ root, params, target, signal }));
  } catch (error) {
    const message = `This page could not be shown: ${asFailure(error).message}`;
    fill(root, failure({ message, hint: "Reload it." }));
    console.error(error);
  }
}

function makeContext(context: Omit<PageContext, "live">): PageContext {
  const { signal } = context;
  const live: PageContext["live"] = (task, every, place) =>
    poll(task, { every, signal, failed: (error) => tell(error, place) });
  return { ...context, live };
}

// Whoever gets no answer makes sure that the others know.
function tell(error: Failure | null, place?: Place): void {
  place?.fail(error);
  if (error?.code === "unreachable" && !targets.error) targets.again();
}

function togglePause() {
  setPaused(!isPaused());
  showStatus();
}

function showStatus() {
  const [kind, text] = targets.error
    ? ["bad", "No answer"]
    : isPaused()
      ? ["paused", "Paused"]
      : ["good", "Live"];
  pauseButton.className = `status ${kind}`;
  pauseButton.title = isPaused() ? "Go on asking (p)" : "Stop asking (p)";
  fill(pauseButton, h("span", { class: "dot" }), text);
}

function shortcut(event: KeyboardEvent) {
  const place = event.target as Element;
  if (place.closest("input, textarea, select, .editor") || event.ctrlKey || event.metaKey || event.altKey)
    return;
  const page = PAGES["1234567890".indexOf(event.key)];
  if (page) location.hash = link(page.name);
  else if (event.key === "p") togglePause();
  else if (event.key === "?") showHelp();
  else return;
  event.preventDefault();
}

// Another address by a click on a link: a page that is the same but for its parameters is mounted again.
window.addEventListener("hashchange", () => {
  mounted.stale = true;
  show();
});
window.addEventListener("keydown", shortcut);
targets.addEventListener("change", () => {
  showStatus();
  picker.update();
  if (mounted.stale) show();
});

document.body.append(
  h(
    "a",
    {
      class: "skip",
      href: "#content",
      onclick: (event) => {
        event.preventDefault();
        heading.focus();
      },
    },
    "Skip to the content",
  ),
  menu.node,
  h("header", { class: "top" }, heading, picker.node, pauseButton),
  content,
);
showStatus();
targets.start();
show();
