// The page of a file that `probing flamegraph -o x.html` has written: its recording is in the element #data.
import "./flame_file.css";
import { fill, h } from "./lib/dom";
import { fromProfile, select } from "./lib/flame_tree";
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

function draw() {
  const stacks = fromProfile(data, { byLine: byLine.on(), byProcess: data.by_process });
  graph.set(select(stacks, { shown: shown.value() }));
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") graph.view.reset();
  if (event.key !== "F3" && !((event.ctrlKey || event.metaKey) && event.key === "f")) return;
  event.preventDefault();
  document.querySelector<HTMLInputElement>("input[type=search]")?.focus();
});
window.addEventListener("themechange", draw);
document.body.append(
  h("header", {}, h("h1", { title: data.title }, data.title), h("label", {}, "Show", shown.node), byLine.node),
  fill(h("main", {}), graph.node),
);
draw();
