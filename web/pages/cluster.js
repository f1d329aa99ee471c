// All ranks of a job at one glance: who differs, where they are, what is wrong.
import { get } from "../lib/api.js";
import { heat, heatField, METRICS, QUERIES, ranges } from "../lib/cluster.js";
import { fill, h } from "../lib/dom.js";
import { count } from "../lib/format.js";
import { link, setParams } from "../lib/state.js";
import { followQueries, recordsOf } from "../lib/stream.js";
import { targets } from "../lib/targets.js";
import { choice } from "../parts/controls.js";
import { HeatMap } from "../parts/heat_map.js";
import { card, command, empty, Place } from "../parts/states.js";

const SECONDS = 2;
const DIAGNOSE_MS = 10_000;

export function mount({ root, params, signal, live }) {
  const place = new Place();
  const grid = h("div", { class: "ranks" });
  const stacks = h("div", {});
  const findings = h("div", {});
  const map = new HeatMap(signal);
  const steps = card("Time of each step by rank", map.node);
  steps.hidden = true;
  const closed = new Set(); // stacks that nobody wants to read
  let list = [];
  const paint = () => fill(grid, rankCells(list, metricOf(metric.value())));
  const metrics = METRICS.map(({ name, title }) => [name, title]);
  const metric = choice("what colours the ranks", metrics, params.get("metric"), (name) => {
    setParams({ metric: name });
    paint();
  });
  const ranks = card(h("span", {}, "Ranks by ", metric.node), grid);
  const body = h("div", { class: "page" }, ranks, findings, stacks, steps);
  fill(root, place.node);

  const draw = ({ ranks, stacks: groups, steps: rows }) => {
    list = ranks;
    if (list.length === 0) return place.show(nobody());
    paint();
    fill(stacks, card("Main threads, equal stacks together", groups.map((each) => group(each, closed))));
    steps.hidden = rows.length === 0;
    place.show(body);
    if (rows.length > 0) map.show(heatField(rows));
  };
  followQueries(() => QUERIES, {
    seconds: SECONDS,
    signal,
    heard: (results) => draw(recordsOf(results)),
    failed: (error) => place.fail(error),
  });
  live(async () => fill(findings, findingsCard(await get("diagnose", signal))), DIAGNOSE_MS, place);
}

function metricOf(name) {
  return METRICS.find((metric) => metric.name === name) ?? METRICS[0];
}

let nobodyNode = null;

function nobody() {
  nobodyNode ??= empty(
    "No rank of a job is probed here",
    "A process is a rank when its launcher said so (torchrun, Slurm, MPI, Kubernetes, Ray). Other hosts are named by the setting `probing.cluster.peers`.",
    ["probing inject --job", "probing config probing.cluster.peers=host1:3344,host2:3344"],
  );
  return nobodyNode;
}

// Colour is never all: the number is there, and who has ended says so.
function rankCells(list, metric) {
  const heats = heat(list.map((rank) => rank[metric.name]));
  return list.map((rank, i) => {
    const value = rank[metric.name];
    const ended = rank.state === "ended";
    const text = ended ? "ended" : typeof value === "number" ? metric.format(value) : "–";
    const attributes = {
      class: `rank ${ended ? "ended" : ""} ${heats[i] > 0.6 ? "hot" : ""}`,
      title: `rank ${rank.rank}, pid ${rank.pid} on ${rank.host}`,
      style: { "--heat": `${Math.round((heats[i] ?? 0) * 100)}%` },
    };
    const inside = [h("strong", {}, String(rank.rank ?? rank.pid)), h("span", {}, text)];
    const isHere = targets.find(rank.pid) !== null; // pages about one process are about those of this host
    return isHere
      ? h("a", { ...attributes, href: link("stacks", { target: rank.pid }) }, inside)
      : h("div", attributes, inside);
  });
}

function group({ processes, ranks, innermost, stack }, closed) {
  const numbers = JSON.parse(ranks ?? "[]");
  const who =
    numbers.length > 0 ? `${count(numbers.length, "rank")} (${ranges(numbers)})` : `processes: ${processes}`;
  const remember = ({ target }) => closed[target.open ? "delete" : "add"](stack);
  return h(
    "details",
    { class: "stack-group", open: !closed.has(stack), ontoggle: remember },
    h("summary", {}, h("strong", {}, who), " in ", h("code", {}, innermost ?? "no Python code")),
    h("pre", {}, stack ?? ""),
  );
}

function findingsCard({ findings, rules }) {
  if (findings.length === 0) return card("Diagnosis", h("p", {}, `Nothing found by ${rules} rules.`));
  return card(
    "Diagnosis",
    findings.map(({ class: name, severity, ranks, evidence, next }) =>
      h(
        "div",
        { class: "finding" },
        h("span", { class: `badge ${severity === "error" ? "bad" : "warn"}` }, name),
        ranks.length > 0 ? h("strong", {}, ` ${ranks.length > 1 ? "ranks" : "rank"} ${ranges(ranks)}: `) : " ",
        evidence,
        next ? command(next) : null,
      ),
    ),
  );
}
