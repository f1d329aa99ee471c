// What the training loop does: where a step's time goes, which modules take it, losses and variables.
import { asFailure, post } from "../lib/api";
import { fill, h, setText } from "../lib/dom";
import { integer, number, percent, seconds } from "../lib/format";
import { setParams } from "../lib/state";
import { followQueries, recordsOf } from "../lib/stream";
import { leaves, otherPart, SPLIT, trainingOf, trainingQueries } from "../lib/training";
import { Chart } from "../parts/chart";
import { ModuleMap, moduleTable } from "../parts/modules";
import { rangePicker, SeriesBoard } from "../parts/series";
import { card, empty, fact, Place } from "../parts/states";
import type { PageContext } from "../types/page";
import type { Lines } from "../types/tables";
import type { StepPart, StepRow } from "../types/training";

const SECONDS = 2;
const PART_NAMES: Record<StepPart | "other", string> = {
  data_wait: "Data wait",
  forward: "Forward",
  backward: "Backward",
  optimizer: "Optimizer",
  other: "Other",
};

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

export function mount({ root, params, target, signal }: PageContext) {
  const place = new Place();
  const range = rangePicker(params, (minutes) => {
    setParams({ minutes });
    again();
    memory.again();
  });
  const facts = h("dl", { class: "facts" });
  const steps = new Chart({
    title: "Time of a step and its parts",
    height: 220,
    time: false,
    stacked: true,
    min: 0,
    format: seconds,
  });
  const ranks = new Chart({
    title: "Time of a step by rank",
    height: 220,
    time: false,
    min: 0,
    format: seconds,
  });
  const values = h("div", { class: "cards" });
  const memory = new SeriesBoard([target ? MEMORY : MEMORY_OF_ALL], signal);
  const map = new ModuleMap();
  const table = h("div", {});
  const modules = card("Modules", map.node, table);
  const cards = {
    facts: card("Steps", facts),
    steps: card(null, steps.node),
    ranks: card(null, ranks.node),
    modules,
  };
  const charts: Map<string, Chart> = new Map(); // of values, by name
  const body = h(
    "div",
    { class: "page" },
    h("div", { class: "toolbar" }, range.node),
    cards.facts,
    cards.steps,
    cards.ranks,
    values,
    memory.node,
    modules,
  );
  const nothing = invitation(target, () => again());
  fill(root, place.node);
  signal.addEventListener("abort", () =>
    [steps, ranks, ...charts.values()].forEach((chart) => chart.destroy()),
  );

  function drawValues(known: Map<string, Lines & { isTime: boolean }>) {
    for (const [name, { xs, series, isTime }] of known) {
      let chart = charts.get(name);
      if (!chart) {
        chart = new Chart({ title: name, height: 170, time: isTime, format: number });
        charts.set(name, chart);
        values.append(card(null, chart.node));
      }
      chart.set(xs, series);
    }
  }

  function drawSteps(list: StepRow[], byRank: Lines | null): void {
    cards.facts.hidden = cards.steps.hidden = list.length === 0;
    if (list.length === 0) return;
    const xs = list.map(({ step }, i) => step ?? i);
    const parts = SPLIT.map((part) => ({ label: PART_NAMES[part], values: list.map((step) => step[part]) }));
    parts.push({ label: PART_NAMES.other, values: list.map(otherPart) });
    cards.steps.hidden = byRank !== null;
    if (!cards.steps.hidden) steps.set(xs, parts);
    fill(facts, stepFacts(list));
  }

  function drawRanks(known: Lines | null) {
    cards.ranks.hidden = known === null;
    if (known) ranks.set(known.xs, known.series);
  }

  function draw(known: ReturnType<typeof trainingOf>) {
    drawSteps(known.steps, known.ranks);
    drawRanks(known.ranks);
    drawValues(known.values);
    modules.hidden = known.modules.length === 0;
    const isEmpty = modules.hidden && known.steps.length === 0 && charts.size === 0;
    place.show(isEmpty ? nothing : body);
    if (modules.hidden) return;
    map.set(leaves(known.modules));
    fill(table, moduleTable(known.modules));
  }

  const again = followQueries(() => trainingQueries(target, range.minutes()), {
    target,
    seconds: SECONDS,
    signal,
    heard: (results) => draw(trainingOf(recordsOf(results))),
    failed: (error) => place.fail(error),
  });
  memory.follow({ target, minutes: range.minutes, place });
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
    fact("Steps in a second", number(1 / duration)),
    SPLIT.map((part) => fact(PART_NAMES[part], share(part))),
    fact("Cost of Probing", percent((100 * mean((step) => step.overhead ?? 0)) / duration)),
  ];
}

function invitation(target: number | null, done: () => void): HTMLElement {
  const pid = target ?? "<pid>";
  const message = h("p", { role: "status" });
  const button = h("button", { class: "primary", type: "button", disabled: !target }, "Switch tracing on");
  button.addEventListener("click", async () => {
    try {
      await post("config", { target, set: { "probing.torch.profiling": "on" } });
      setText(message, "It is on: rows come with the next steps.");
      done();
    } catch (error) {
      const { message: why, hint = "" } = asFailure(error);
      setText(message, `${why} ${hint}`);
    }
  });
  const node = empty(
    "No training step has been recorded",
    "Tracing of PyTorch is off until somebody asks for it. It can be switched on while the job runs:",
    [`probing -t ${pid} config probing.torch.profiling=on`, "PROBING_TORCH_PROFILING=on python train.py"],
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
