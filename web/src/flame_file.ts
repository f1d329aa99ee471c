// The page of a file that `probing flamegraph -o x.html` has written: its recording is in the element #data.
import "./flame_file.css";
import { fill, h } from "./lib/dom";
import { ranges } from "./lib/cluster";
import { fromProfile, select } from "./lib/flame_tree";
import { rankIn } from "./lib/flame_views";
import { choice, check } from "./parts/controls";
import { FlameGraph } from "./parts/flame_graph";
import type { Profile } from "./types/api";
import type { Option } from "./types/page";

interface Recording extends Profile {
  title: string;
  shown: string;
  by_thread: boolean;
  by_process: boolean;
  by_line: boolean;
  by_rank: boolean;
  ranks: number[]; // of a job: only these; [] for all
  against: number[]; // whose shares they are compared with
}

const SHOWN: Option[] = [
  ["active", "threads that run"],
  ["gil", "holders of the GIL"],
  ["all", "waiting threads too"],
];

const dark = matchMedia("(prefers-color-scheme: dark)");
function setTheme() {
  document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
  window.dispatchEvent(new Event("themechange"));
}
dark.addEventListener("change", setTheme);
setTheme();

const data: Recording = JSON.parse(document.getElementById("data")?.textContent ?? "");
const params = new URLSearchParams(location.hash.slice(1));
if (!data.by_rank && !data.by_process && !params.has("ranks")) params.set("ranks", "0");
if (data.by_thread && !params.has("threads")) params.set("threads", "1");

const graph = new FlameGraph(params, new AbortController().signal, (changes) => {
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "" || value === false) params.delete(name);
    else params.set(name, value === true ? "1" : String(value));
  }
  try {
    history.replaceState(null, "", `#${params}`);
  } catch {
    // In a frame of a notebook the address cannot be changed; what is shown can.
  }
});
const shown = choice("Show", SHOWN, data.shown, draw);
const byLine = check("By line", data.by_line, draw);

// Of a job: which ranks are shown, and whom they are compared with.
const all = [...new Set(data.threads.map(({ rank }) => rank).filter((rank) => rank !== undefined))].sort((a, b) => a - b);
const single: Option[] = all.map((rank) => [String(rank), `rank ${rank}`]);
const withSet = (list: number[]): Option[] => (list.length > 1 ? [[list.join(), `ranks ${ranges(list)}`]] : []);
const others = all.filter((rank) => !data.ranks.includes(rank));
const isOthers = data.against.join() === others.join();
const ranksShown = choice("Ranks", [["", "all ranks"], ...withSet(data.ranks), ...single], data.ranks.join(), draw);
const against = choice(
  "Against",
  [["", "nothing"], ["others", "the other ranks"], ...withSet(isOthers ? [] : data.against), ...single],
  isOthers && data.against.length > 0 ? "others" : data.against.join(),
  draw,
);
const ofJob = h("span", { hidden: all.length < 2 }, h("label", {}, "Ranks", ranksShown.node), h("label", {}, "Against", against.node));

function draw() {
  const stacks = select(fromProfile(data, { byLine: byLine.on(), byProcess: data.by_process }), { shown: shown.value() });
  const listed = (text: string) => text.split(",").map(Number);
  const chosen = ranksShown.value() === "" ? all : listed(ranksShown.value());
  const of = (ranks: number[]) => stacks.filter(({ rank }) => ranks.includes(rankIn(rank) ?? -1));
  against.node.disabled = chosen.length === all.length;
  if (all.length < 2) return graph.set(stacks);
  if (against.value() === "" || against.node.disabled) return graph.set(of(chosen));
  const rest = against.value() === "others" ? all.filter((rank) => !chosen.includes(rank)) : listed(against.value());
  // In a group of its own no rank could be compared with another one.
  const together = (ranks: number[]) => of(ranks).map((stack) => ({ ...stack, rank: "" }));
  graph.set(together(chosen), together(rest));
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") graph.view.reset();
  if (event.key !== "F3" && !((event.ctrlKey || event.metaKey) && event.key === "f")) return;
  event.preventDefault();
  document.querySelector<HTMLInputElement>("input[type=search]")?.focus();
});
window.addEventListener("themechange", draw);
document.body.append(
  h("header", {}, h("h1", { title: data.title }, data.title), ofJob, h("label", {}, "Show", shown.node), byLine.node),
  fill(h("main", {}), graph.node),
);
draw();
