// The frame around the pages: menu, choice of the target, and which page is shown.
//
// A page is a module of pages/ with mount({root, params, target, signal, live}): it builds its elements in
// `root` and stops when `signal` says so. `target` is a pid or null (all targets), `params` are those of
// the address, live(task, ms, place) asks again and again while the page is seen. What the server can tell
// by itself is followed (lib/stream.ts).
import "./first";
import "uplot/dist/uPlot.min.css"; // ours has the last word
import "./style/colours.css";
import "./style/base.css";
import "./style/parts.css";
import "./style/pages.css";
import "./style/flame.css";
import "./style/frame.css";
import "./style/jobs.css";
import { asFailure } from "./lib/api";
import { copy, fill, h, icon } from "./lib/dom";
import { isPaused, poll, setPaused } from "./lib/poll";
import { bounds, rangeOf, rangeParams } from "./lib/range";
import { current, link, makeHash, remember, remembered, setParams } from "./lib/state";
import { jobName, targets } from "./lib/targets";
import { makeMenu, showHelp } from "./parts/menu";
import { RangePicker } from "./parts/range_picker";
import { TargetPicker } from "./parts/target_picker";
import { setTheme } from "./parts/theme_button";
import { empty, failure, loading } from "./parts/states";
import { pageOf, PAGES } from "./routes";
import type { Place } from "./parts/states";
import type { Failure, PageContext, Range, Route, Scope } from "./types/page";

const GLASS = "M10.5 4a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13M15.5 15.5L20 20";

const menu = makeMenu();
const picker = new TargetPicker(chooseScope);
const times = new RangePicker(chooseRange);
const pauseButton = h("button", { class: "status", type: "button", onclick: () => togglePause() });
const shareButton = h(
  "button",
  { type: "button", title: "Copy a link to what is shown, at this time", onclick: () => void share() },
  "Share",
);
const heading = h("h1", { tabindex: "-1" });
const content = h("main", { id: "content" });

let mounted: { key: string; stop: AbortController; stale?: boolean } = {
  key: "",
  stop: new AbortController(),
};

function go(changes: Record<string, string | null>) {
  const { page, params } = current();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) params.delete(name);
    else params.set(name, value);
  }
  location.hash = makeHash(page, params);
}

function chooseScope({ target, job }: Scope) {
  go({ target: target ? String(target) : null, job });
}

function chooseRange(range: Range, isNow = false) {
  const page = pageOf(current().page);
  if (page.past) return go(isNow ? { from: null, to: null, stall: null } : { ...rangeParams(bounds(range)), stall: null });
  if ("seconds" in range) remember(`seconds.${page.name}`, range.seconds);
  go(rangeParams(range));
}

function usualSeconds({ name, seconds = 300 }: Route): number {
  return remembered(`seconds.${name}`, seconds);
}

// What is seen now is what others see later: a link to the last minutes is one to these minutes.
async function share() {
  const { page, params } = current();
  const route = pageOf(page);
  const address = new URL(location.href);
  if (route.seconds) {
    const frozen = rangeParams(bounds(rangeOf(params, usualSeconds(route))));
    for (const [name, value] of Object.entries(frozen)) {
      if (value === null) params.delete(name);
      else params.set(name, value);
    }
    address.hash = makeHash(route.name, params);
  }
  const copied = await copy(address.href);
  if (!copied) location.hash = address.hash;
  fill(shareButton, copied ? "Link copied" : "It is in the address bar");
  setTimeout(() => fill(shareButton, "Share"), 2000);
}

function targetOf(params: URLSearchParams) {
  const pid = Number(params.get("target"));
  return Number.isInteger(pid) && pid > 0 ? pid : null;
}

// A page that needs a target gets the first that lives, of the job if one is chosen, when the address names none.
function pickTarget(page: Route, params: URLSearchParams): number | null {
  const named = targetOf(params);
  if (named || !page.needsTarget) return named;
  const job = params.get("job");
  const fit = targets.live.filter((one) => job === null || jobName(one) === job);
  const first = fit[0]?.pid ?? null;
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

// Instead of a page that only a probe can fill.
function missingProbe(pid: number) {
  const said = h("p", { class: "quiet-text", role: "status" });
  const node = empty(
    `Process ${pid} has no probe`,
    "This page asks the probe inside of the process. Inject it: the process goes on, and Eject takes it out again.",
    [`probing -t ${pid} inject`],
  );
  void import("./parts/actions").then(({ injectButton }) =>
    node.append(injectButton(pid, (what) => fill(said, what), () => void show()), said),
  );
  return node;
}

function lacksProbe({ needsProbe }: Route, target: number | null): boolean {
  return Boolean(needsProbe && target && targets.list !== null && !targets.find(target)?.how);
}

async function show() {
  const { page: name, params } = current();
  const page = pageOf(name);
  const target = pickTarget(page, params);
  const job = target ? null : params.get("job");
  const range = rangeOf(params, usualSeconds(page));
  picker.show({ target, job }, page.needsTarget);
  times.node.hidden = !page.seconds && !(page.past && "from" in range);
  times.show(range);
  showStatus();
  const waits = page.needsTarget && !target ? "waits" : lacksProbe(page, target) ? "no probe" : "";
  const key = `${page.name} ${target} ${job} ${waits}`;
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
  if (waits) {
    fill(root, target ? missingProbe(target) : missingTarget());
    mounted.stale = true;
    return;
  }
  try {
    const { mount } = await page.load();
    if (!signal.aborted) mount(makeContext({ root, params, target, job, range, signal }));
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
  const target = targetOf(current().params);
  if (target && error?.code === "not_found") gone.add(target);
  else if (target && error === null) gone.delete(target);
  showStatus();
  if (error?.code === "unreachable" && !targets.error) targets.again();
}

function togglePause() {
  setPaused(!isPaused());
  showStatus();
}

// Of what is looked at: a process that has ended is not live, nor is a time that is over.
function statusWord(): [kind: string, text: string] {
  if (targets.error) return ["bad", "No answer"];
  if (isPaused()) return ["paused", "Paused"];
  const { page, params } = current();
  const target = targetOf(params);
  if (target && (targets.find(target)?.state === "ended" || gone.has(target))) return ["bad", "Ended"];
  const route = pageOf(page);
  if ((route.seconds || route.past) && "from" in rangeOf(params, 1)) return ["paused", "Frozen"];
  return ["good", "Live"];
}

const gone = new Set<number>(); // without a probe nobody tells when they end

function showStatus() {
  const [kind, text] = statusWord();
  const title = isPaused() ? "Go on asking (p)" : "Stop asking (p)";
  if (pauseButton.textContent === text && pauseButton.title === title) return;
  pauseButton.className = `status ${kind}`;
  pauseButton.title = title;
  fill(pauseButton, h("span", { class: "dot" }), text);
}

async function commands() {
  const { openPalette } = await import("./parts/palette");
  openPalette([
    { text: "Share a link to what is shown", kind: "command", run: () => void share() },
    { text: isPaused() ? "Go on asking" : "Stop asking", kind: "command", run: togglePause },
    { text: "Keys", kind: "command", run: showHelp },
    ...["auto", "light", "dark"].map((name) => ({
      text: name === "auto" ? "Colours as the system" : `Colours: ${name}`,
      kind: "command",
      run: () => setTheme(name),
    })),
  ]);
}

function shortcut(event: KeyboardEvent) {
  const place = event.target as Element;
  if ((event.ctrlKey || event.metaKey) && event.key === "k") {
    event.preventDefault();
    return void commands();
  }
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
  const { page, params } = current();
  if (mounted.stale || mounted.key.endsWith("no probe") !== lacksProbe(pageOf(page), targetOf(params))) show();
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
  h(
    "header",
    { class: "top" },
    heading,
    h("button", { type: "button", class: "quiet search", title: "Go to or do (Ctrl+K)", onclick: () => void commands() }, icon(GLASS), h("kbd", {}, "Ctrl K")),
    times.node,
    picker.node,
    shareButton,
    pauseButton,
  ),
  content,
);
showStatus();
targets.start();
show();
