// All ranks of a job at one glance: who differs, where they are, what is wrong.
import { get } from "../lib/api";
import { heat, heatField, jobsOf, METRICS, ofJob, QUERIES, ranges, readableStack, slowestOften } from "../lib/cluster";
import { fill, h } from "../lib/dom";
import { count } from "../lib/format";
import { current, link, makeHash, setParams } from "../lib/state";
import { followQueries, recordsOf } from "../lib/stream";
import { loadStore } from "../lib/store";
import { targets } from "../lib/targets";
import { Chart } from "../parts/chart";
import { choice } from "../parts/controls";
import { HeatMap } from "../parts/heat_map";
import { isStore, sourcePicker } from "../parts/source_picker";
import { mergeAlike } from "../lib/findings";
import { findingLine } from "../parts/job_cards";
import { card, empty, Place } from "../parts/states";
import type { GetAnswers } from "../types/api";
import type { Option, PageContext } from "../types/page";
import type { ClusterRows, RankMetric, RankRow, SlowestRow, StackGroup } from "../types/targets";

const SECONDS = 2;
const DIAGNOSE_MS = 10_000;
const STORE_MS = 5000;

export function mount({ root, params, job: chosen, signal, live }: PageContext) {
  const place = new Place();
  const store = isStore(params);
  const grid = h("div", { class: "ranks" });
  const stacks = h("div", {});
  const findings = h("div", {});
  const map = new HeatMap(signal);
  const steps = card("Time of each step by rank", map.node);
  steps.hidden = true;
  const behind = new SlowestChart(signal);
  const closed: Set<string | null> = new Set(); // stacks that nobody wants to read
  let list: RankRow[] = [];
  const paint = () => fill(grid, rankCells(list, metricOf(metric.value())));
  const metrics: Option[] = METRICS.map(({ name, title }) => [name, title]);
  const metric = choice("what colours the ranks", metrics, params.get("metric"), (name) => {
    setParams({ metric: name });
    paint();
  });
  const ranks = card(h("span", {}, "Ranks by ", metric.node), grid);
  const body = h("div", { class: "page" }, findings, ranks, stacks, behind.node, steps);

  // Of several jobs the one that is looked at, else the first; those of other hosts can be chosen here only.
  let job = "";
  const select = h("select", { "aria-label": "Job", onchange: () => chooseJob(select.value) });
  const which = h("label", { class: "check", hidden: true }, "Job", select);
  let offered = "";
  const offer = (names: string[]) => {
    which.hidden = names.length < 2;
    const text = JSON.stringify(names);
    if (text !== offered) fill(select, names.map((name) => h("option", { value: name }, name || "without a name")));
    offered = text;
    select.value = job;
  };
  fill(root, h("div", { class: "toolbar" }, sourcePicker(params, signal), which), place.node);
  const draw = (rows: ClusterRows) => {
    const names = jobsOf(rows.ranks);
    job = chosen !== null && names.includes(chosen) ? chosen : (names[0] ?? "");
    offer(names);
    drawJob(ofJob(rows, job));
  };
  const drawJob = ({ ranks, stacks: groups, steps: rows, slowest }: ClusterRows) => {
    list = ranks;
    if (list.length === 0) return place.show(store ? nobodyThere() : nobody());
    paint();
    stacks.hidden = groups.length === 0;
    fill(
      stacks,
      card(
        "Where the ranks are, equal stacks together",
        groups.map((each) => group(each, closed)),
      ),
    );
    behind.set(slowest);
    steps.hidden = rows.length === 0;
    place.show(body);
    if (rows.length > 0) map.show(heatField(rows));
  };
  const diagnose = async () =>
    fill(findings, findingsCard(await get(`diagnose?store=${store ? "true" : ""}`, signal), job));
  live(diagnose, DIAGNOSE_MS, place);
  if (store) {
    live(async () => draw(await loadStore(signal)), STORE_MS, place);
    return;
  }
  followQueries(() => QUERIES, {
    seconds: SECONDS,
    signal,
    heard: (results) => draw(recordsOf(results)),
    failed: (error) => place.fail(error),
  });
}

function chooseJob(name: string): void {
  const { page, params } = current();
  params.delete("target");
  params.set("job", name);
  location.hash = makeHash(page, params);
}

// The rank that the others wait for, step by step: its own time, and that of the rank in the middle.
class SlowestChart {
  private rows: SlowestRow[] = [];
  private readonly often = h("p", { class: "quiet-text" });
  private readonly chart = new Chart({
    height: 180,
    time: false,
    min: 0,
    unit: "s",
    about: (i) => (this.rows[i] ? `step ${this.rows[i].step}: rank ${this.rows[i].rank}` : ""),
  });
  readonly node = card("The slowest rank of each step", this.often, this.chart.node);

  constructor(signal: AbortSignal) {
    this.node.hidden = true;
    this.node.classList.add("slowest");
    signal.addEventListener("abort", () => this.chart.destroy());
  }

  set(rows: SlowestRow[]) {
    this.rows = rows;
    this.node.hidden = rows.length === 0;
    if (rows.length === 0) return;
    const [first, second] = slowestOften(rows).map(
      ({ rank, steps }) => `rank ${rank} in ${steps} of ${count(rows.length, "step")}`,
    );
    fill(this.often, `Without its time in collectives: ${first}${second ? `, then ${second}` : ""}`);
    this.chart.set(
      rows.map(({ step }) => step),
      [
        { label: "slowest", values: rows.map(({ slowest }) => slowest) },
        { label: "in the middle", values: rows.map(({ middle }) => middle) },
      ],
    );
  }
}

function metricOf(name: string) {
  return METRICS.find((metric) => metric.name === name) ?? METRICS[0];
}

let nobodyNode: HTMLElement | null = null;

function nobody() {
  nobodyNode ??= empty(
    "No rank of a job is probed here",
    "A process is a rank when its launcher said so (torchrun, Slurm, MPI, Kubernetes, Ray). Other hosts are named by the setting `probing.cluster.peers`.",
    ["probing inject --job", "probing config probing.cluster.peers=host1:3344,host2:3344"],
  );
  return nobodyNode;
}

function nobodyThere() {
  return empty(
    "No rank has sent steps to the store in the last minute",
    "Rows of traced steps come from the hosts whose `probing.store` names it:",
    ["probing config probing.store=clickhouse://host:8123/fleet"],
  );
}

// Colour is never all: the number is there, and who has ended says so.
function rankCells(list: RankRow[], metric: RankMetric): HTMLElement[] {
  const heats = heat(list.map((rank) => rank[metric.name]));
  return list.map((rank, i) => {
    const value = rank[metric.name];
    const ended = rank.state === "ended";
    const text = ended ? "ended" : typeof value === "number" ? metric.format(value) : "–";
    const warmth = heats[i] ?? 0;
    const attributes = {
      class: `rank ${ended ? "ended" : ""} ${warmth > 0.6 ? "hot" : ""}`,
      title: `rank ${rank.rank}, pid ${rank.pid} on ${rank.host}`,
      style: { "--heat": `${Math.round(warmth * 100)}%` },
    };
    const inside = [h("strong", {}, String(rank.rank ?? rank.pid)), h("span", {}, text)];
    const isHere = !rank.stored && targets.find(rank.pid) !== null; // pages about one process are about those of this host
    return isHere
      ? h("a", { ...attributes, href: link("stacks", { target: rank.pid }) }, inside)
      : h("div", attributes, inside);
  });
}

function group({ processes, ranks, stack }: StackGroup, closed: Set<string | null>): HTMLElement {
  const numbers: number[] = JSON.parse(ranks ?? "[]");
  const who =
    numbers.length > 0 ? `${count(numbers.length, "rank")} (${ranges(numbers)})` : `processes: ${processes}`;
  const { place, text } = readableStack(stack ?? "");
  const remember = ({ target }: Event) =>
    closed[(target as HTMLDetailsElement).open ? "delete" : "add"](stack);
  return h(
    "details",
    { class: "stack-group", open: !closed.has(stack), ontoggle: remember },
    h("summary", {}, h("strong", {}, who), " in ", h("code", {}, place)),
    h("pre", { tabindex: "0" }, text),
  );
}

function findingsCard({ findings, rules }: GetAnswers["diagnose"], job: string) {
  const about = findings.filter((finding) => finding.job === null || job === "" || finding.job === job);
  if (about.length === 0) return card("Diagnosis", h("p", {}, `Nothing found by ${rules} rules.`));
  return card("Diagnosis", h("ul", { class: "findings" }, mergeAlike(about).map(findingLine)));
}
