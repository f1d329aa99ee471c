// What the training loop does: where a step's time goes, which modules take it, losses and variables; beside
// another run, or the time before.
import { asFailure, post } from "../lib/api";
import { bandOf, overlay } from "../lib/chart_data";
import { fill, h, setText } from "../lib/dom";
import { integer, number, percent, seconds } from "../lib/format";
import { before, bounds, within } from "../lib/range";
import { setParams } from "../lib/state";
import { followQueries, recordsOf } from "../lib/stream";
import { targets } from "../lib/targets";
import { leaves, otherPart, SPLIT, trainingOf, trainingQueries } from "../lib/training";
import { Chart } from "../parts/chart";
import { check, choice } from "../parts/controls";
import { ModuleMap, moduleTable } from "../parts/modules";
import { SeriesBoard } from "../parts/series";
import { card, empty, fact, Place } from "../parts/states";
import type { Option, PageContext } from "../types/page";
import type { Lines } from "../types/tables";
import type { StepPart, StepRow } from "../types/training";

type Known = ReturnType<typeof trainingOf>;

const SECONDS = 2;
const MANY_RANKS = 8; // more lines than that say less than a band
const HEIGHT = 220;
const PART_NAMES: Record<StepPart | "other", string> = {
  data_wait: "Data wait",
  forward: "Forward",
  backward: "Backward",
  optimizer: "Optimizer",
  other: "Other",
};
const SMOOTHINGS: Option[] = [
  ["0", "no smoothing"],
  ["0.6", "a little smoothing"],
  ["0.9", "smoothing"],
  ["0.98", "much smoothing"],
];
const BEFORE = "before";

const MEMORY_OF_ALL = {
  title: "Memory",
  unit: "bytes",
  sql: `SELECT timestamp, coalesce('rank ' || rank, pid::VARCHAR) AS who, rss
    FROM python.memory WHERE {since} ORDER BY timestamp`,
};

const MEMORY = {
  title: "Memory",
  unit: "bytes",
  sql: `SELECT timestamp, rss, tensor_bytes AS tensors, gpu_allocated, gpu_reserved
    FROM python.memory WHERE {since} ORDER BY timestamp`,
  names: { rss: "resident", gpu_allocated: "GPU in tensors", gpu_reserved: "GPU kept" },
};

export function mount({ root, params, target, job, range, signal }: PageContext) {
  const place = new Place();
  const charts: Map<string, Chart> = new Map(); // of values, by name
  const smoothing = choice("Smoothing", SMOOTHINGS, params.get("smooth"), (value) => {
    setParams({ smooth: value === "0" ? "" : value });
    look();
  });
  const log = check("Log axis", params.get("log") === "1", (on) => {
    setParams({ log: on });
    look();
  });
  const asBand = check("Ranks as a band", params.get("band") !== "0", (on) => {
    setParams({ band: on ? "" : "0" });
    draw();
  });
  const other = choice("Compare with", others(target), params.get("vs"), (value) => {
    setParams({ vs: value });
    compare();
  });
  const look = () => {
    for (const chart of charts.values())
      chart.look({ smoothing: Number(smoothing.value()), logarithmic: log.on() });
  };
  const facts = h("dl", { class: "facts" });
  const steps = new Chart({
    title: "Time of a step and its parts",
    height: HEIGHT,
    time: false,
    stacked: true,
    min: 0,
    unit: "s",
  });
  const ranks = new Chart({ title: "Time of a step by rank", height: HEIGHT, time: false, min: 0, unit: "s" });
  const bands = new Chart({
    title: "Time of a step, all ranks",
    height: HEIGHT,
    time: false,
    min: 0,
    unit: "s",
    band: true,
  });
  const compared = new Chart({ title: "Time of a step, compared", height: HEIGHT, time: false, min: 0, unit: "s" });
  const values = h("div", { class: "cards" });
  const memory = new SeriesBoard([target ? MEMORY : MEMORY_OF_ALL], signal);
  const map = new ModuleMap();
  const table = h("div", {});
  const modules = card("Modules", map.node, table);
  const cards = {
    facts: card("Steps", facts),
    steps: card(null, steps.node),
    ranks: card(null, ranks.node),
    bands: card(null, bands.node),
    compared: card(null, compared.node),
  };
  const body = h(
    "div",
    { class: "page" },
    h(
      "div",
      { class: "toolbar" },
      h("label", {}, "Values", smoothing.node),
      log.node,
      asBand.node,
      h("label", {}, "Compare with", other.node),
      h("span", { class: "quiet-text" }, "Draw over a chart to zoom; a double click shows all."),
    ),
    Object.values(cards),
    values,
    memory.node,
    modules,
  );
  const nothing = invitation(target);
  fill(root, place.node);
  signal.addEventListener("abort", () =>
    [steps, ranks, bands, compared, ...charts.values()].forEach((chart) => chart.destroy()),
  );

  let known: Known | null = null;
  let beside: Known | null = null; // what it is compared with
  let stopOther = new AbortController();

  const noteOf = () => (other.value() === BEFORE ? "before" : `of ${other.value()}`);
  // Another run is laid on the same steps; the time before is moved to now.
  const withOther = (own: Lines, others: Lines | null | undefined, isTime: boolean): Lines => {
    if (!others || others.xs.length === 0) return own;
    const moves = other.value() === BEFORE;
    const { from, to } = bounds(range);
    const shift = !moves ? 0 : isTime ? (to - from) / 1000 : (own.xs[0] ?? 0) - others.xs[0];
    return overlay(own.xs, own.series, others, shift, noteOf());
  };

  function drawValues({ values: list }: Known) {
    for (const [name, lines] of list) {
      let chart = charts.get(name);
      if (!chart) {
        chart = new Chart({ title: name, height: 190, time: lines.isTime });
        charts.set(name, chart);
        values.append(card(null, chart.node));
        look();
      }
      const { xs, series } = withOther(lines, beside?.values.get(name), lines.isTime);
      chart.set(xs, series);
    }
  }

  function drawSteps({ steps: list, ranks: byRank }: Known): void {
    cards.facts.hidden = cards.steps.hidden = list.length === 0;
    cards.compared.hidden = !beside || beside.steps.length === 0 || list.length === 0;
    if (list.length === 0) return;
    const parts = SPLIT.map((part) => ({ label: PART_NAMES[part], values: list.map((step) => step[part]) }));
    parts.push({ label: PART_NAMES.other, values: list.map(otherPart) });
    cards.steps.hidden = byRank !== null;
    if (!cards.steps.hidden) steps.set(stepsOf(list), parts);
    fill(facts, stepFacts(list));
    if (cards.compared.hidden) return;
    const { xs, series } = withOther(durations(list), durations(beside!.steps), false);
    compared.set(xs, series);
  }

  function drawRanks({ ranks: lines }: Known) {
    asBand.node.hidden = lines === null || lines.series.length <= MANY_RANKS;
    const isBand = !asBand.node.hidden && asBand.on();
    cards.ranks.hidden = lines === null || isBand;
    cards.bands.hidden = !isBand;
    if (lines === null) return;
    if (!isBand) return ranks.set(lines.xs, lines.series);
    const { low, middle, high } = bandOf(lines.series);
    bands.set(lines.xs, [low, middle, high]);
  }

  function draw() {
    if (known === null) return;
    drawSteps(known);
    drawRanks(known);
    drawValues(known);
    modules.hidden = known.modules.length === 0;
    const isEmpty = modules.hidden && known.steps.length === 0 && charts.size === 0;
    place.show(isEmpty ? nothing : body);
    if (modules.hidden) return;
    map.set(leaves(known.modules));
    fill(table, moduleTable(known.modules));
  }

  function compare() {
    stopOther.abort();
    stopOther = new AbortController();
    beside = null;
    draw();
    const chosen = other.value();
    if (!chosen) return;
    const who = chosen === BEFORE ? target : Number(chosen);
    const when = chosen === BEFORE ? within(before(range), job) : within(range);
    followQueries(() => trainingQueries(who, when), {
      target: who,
      seconds: SECONDS,
      signal: AbortSignal.any([signal, stopOther.signal]),
      heard: (results) => {
        beside = trainingOf(recordsOf(results));
        draw();
      },
      failed: (error) => place.fail(error),
    });
  }

  followQueries(() => trainingQueries(target, within(range, job)), {
    target,
    seconds: SECONDS,
    signal,
    heard: (results) => {
      known = trainingOf(recordsOf(results));
      draw();
    },
    failed: (error) => place.fail(error),
  });
  compare();
  memory.follow({ target, when: within(range, job), place });
}

function others(target: number | null): Option[] {
  const runs = (targets.list ?? []).filter(({ pid }) => pid !== target);
  return [
    ["", "nothing"],
    [BEFORE, "the time before"],
    ...runs.map(({ pid, state }): Option => [String(pid), `process ${pid}${state === "ended" ? " (ended)" : ""}`]),
  ];
}

const stepsOf = (list: StepRow[]) => list.map(({ step }, i) => step ?? i);

function durations(list: StepRow[]): Lines {
  return { xs: stepsOf(list), series: [{ label: "step", values: list.map(({ duration }) => duration) }] };
}

// Of the last tenth of what is shown: what it is like now.
function stepFacts(list: StepRow[]) {
  const recent = list.slice(-Math.max(1, Math.ceil(list.length / 10)));
  const mean = (of: (step: StepRow) => number) =>
    recent.reduce((sum, step) => sum + of(step), 0) / recent.length;
  const duration = mean((step) => step.duration ?? 0);
  const share = (part: StepPart) =>
    `${seconds(mean((step) => step[part] ?? 0))}, ${Math.round((100 * mean((step) => step[part] ?? 0)) / duration)} %`;
  return [
    list.at(-1)?.job ? fact("Job", list.at(-1)!.job!) : [],
    fact("Last step", integer(list.at(-1)?.step)),
    fact("Time of a step", seconds(duration)),
    fact("Steps/s", number(Number((1 / duration).toPrecision(3)))),
    SPLIT.map((part) => fact(PART_NAMES[part], share(part))),
    fact("Cost of Probing", percent((100 * mean((step) => step.overhead ?? 0)) / duration)),
  ];
}

// What is said must work: tracing needs a probe, which `PROBING=1` or an injection brings.
function invitation(target: number | null): HTMLElement {
  const pid = target ?? "<pid>";
  const message = h("p", { role: "status" });
  const button = h("button", { class: "primary", type: "button", disabled: !target }, "Switch tracing on");
  button.addEventListener("click", async () => {
    try {
      await post("config", { target, set: { "probing.torch.profiling": "on" } });
      setText(message, "It is on: rows come with the next steps.");
    } catch (error) {
      const { message: why, hint = "" } = asFailure(error);
      setText(message, `${why} ${hint}`);
    }
  });
  const node = empty(
    "No training step has been recorded",
    "Tracing of PyTorch is off until somebody asks for it. It can be switched on while the job runs, or from its start:",
    [
      `probing -t ${pid} config probing.torch.profiling=on`,
      "PROBING=1 PROBING_TORCH_PROFILING=on python train.py",
    ],
  );
  const more = h(
    "p",
    {},
    "Any job can report values itself: ",
    h("code", {}, "probing.step(); probing.log(loss=loss)"),
  );
  node.append(target ? button : "", message, more);
  return node;
}
