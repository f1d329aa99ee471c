// All processes of this host at one glance, or one of them: facts, CPU and memory, where its main thread is.
import { fill, h } from "../lib/dom";
import { bytes, integer, percent, seconds, shortFile, span } from "../lib/format";
import { link, setParams } from "../lib/state";
import { shortCommand } from "../lib/targets";
import { loadFacts, Stillness } from "../lib/target_facts";
import { plainTable } from "../parts/plain_table";
import { SeriesBoard, rangePicker } from "../parts/series";
import { card, empty, fact, Place } from "../parts/states";
import type { PageContext } from "../types/page";
import type { PlainColumn, SeriesSpec } from "../types/tables";
import type { Facts } from "../types/targets";

const EVERY_MS = 2000;
const STILL_S = 10; // as long as that at one place without CPU: worth a look
const BUSY_PERCENT = 5;

const ONE_TARGET: SeriesSpec[] = [
  {
    title: "CPU, % of one core",
    unit: "%",
    sql: "SELECT timestamp, cpu_percent, system_percent, children_percent FROM system.cpu WHERE {since} ORDER BY 1",
    names: {
      cpu_percent: "process",
      system_percent: "of it in the kernel",
      children_percent: "its children",
    },
  },
  {
    title: "Memory",
    unit: "bytes",
    sql: "SELECT timestamp, rss, children_rss FROM system.memory WHERE {since} ORDER BY 1",
    names: { rss: "resident", children_rss: "its children" },
  },
];
const ALL_TARGETS: SeriesSpec[] = [
  {
    title: "CPU, % of one core",
    unit: "%",
    sql: "SELECT timestamp, coalesce('rank ' || rank, pid::VARCHAR) AS who, cpu_percent FROM system.cpu WHERE {since} ORDER BY 1",
  },
  {
    title: "Resident memory",
    unit: "bytes",
    sql: "SELECT timestamp, coalesce('rank ' || rank, pid::VARCHAR) AS who, rss FROM system.memory WHERE {since} ORDER BY 1",
  },
];

export function mount({ root, params, target, signal, live }: PageContext) {
  const place = new Place();
  const board = new SeriesBoard(target ? ONE_TARGET : ALL_TARGETS, signal);
  const range = rangePicker(params, (minutes) => {
    setParams({ minutes });
    board.again();
  });
  const body = h("div", { class: "page" });
  const summary = h("div", {});
  const stillness = new Stillness();
  const noSeries = empty("No series of CPU and memory", "They are written about processes with a probe.", [
    `probing -t ${target} inject`,
  ]);
  noSeries.hidden = true;
  fill(body, summary, h("div", { class: "toolbar" }, range.node), board.node, noSeries);
  fill(root, place.node);

  live(
    async () => {
      const facts = await loadFacts(target, signal);
      stillness.see(facts);
      if (!target && facts.length === 0) return place.show(nobody());
      fill(summary, target ? oneTarget(facts, target, stillness) : table(facts, stillness));
      place.show(body);
    },
    EVERY_MS,
    place,
  );
  const shown = (some: boolean) => (noSeries.hidden = some || !target);
  board.follow({ target, minutes: range.minutes, shown, place });
}

let nobodyNode: HTMLElement | null = null;

function nobody() {
  nobodyNode ??= empty(
    "No process is probed on this host yet",
    "Enter a running Python process by its pid, or start one under the probe. It appears here by itself.",
    ["probing -t <pid> inject", "probing run -- python train.py", "PROBING=1 python train.py"],
  );
  return nobodyNode;
}

function stateBadge({ state, process }: Facts) {
  if (state === "ended") return h("span", { class: "badge" }, "ended");
  const kernel = process?.state ?? state;
  const kind = { running: "good", sleeping: "", disk: "warn", stopped: "bad", zombie: "bad" }[kernel] ?? "";
  return h("span", { class: `badge ${kind}` }, kernel);
}

function whereText({ at }: Facts) {
  return at ? `${at.func} (${shortFile(at.file)}:${at.lineno ?? "?"})` : "–";
}

function isBusy({ cpu, process }: Facts) {
  return cpu === null ? process?.state === "running" : cpu > BUSY_PERCENT;
}

function stillBadge(facts: Facts, stillness: Stillness): HTMLElement | null {
  const still = stillness.secondsAt(facts.pid);
  if (facts.state === "ended" || still < STILL_S || isBusy(facts)) return null;
  return h(
    "span",
    { class: "badge warn", title: "The main thread has not moved and takes no CPU" },
    `still for ${span(still)}`,
  );
}

const COLUMNS: PlainColumn[] = [["Process"], ["State"], ["Main thread", "mono"]];
const NUMBERS = ["Step", "Step time", "CPU", "Memory"];

function gpuText({ gpu }: Facts) {
  return gpu ? `${percent(gpu.percent)}, ${bytes(gpu.bytes)}` : "–";
}

function table(list: Facts[], stillness: Stillness): HTMLElement {
  const hasGpu = list.some(({ gpu }) => gpu !== null); // a host without one needs no column for it
  const rows = list.map((facts) => [
    processCell(facts),
    [stateBadge(facts), ending(facts)],
    [whereText(facts), " ", stillBadge(facts, stillness)],
    facts.step === null ? "–" : integer(facts.step),
    facts.stepSeconds === null ? "–" : seconds(facts.stepSeconds),
    percent(facts.cpu),
    bytes(facts.process?.rss),
    ...(hasGpu ? [gpuText(facts)] : []),
    facts.process ? span(facts.upSeconds) : "–",
  ]);
  const ended = list.filter(({ state }) => state === "ended").length;
  const numbers = [...NUMBERS, ...(hasGpu ? ["GPU"] : []), "Up"].map((name) => [name, "number"] as const);
  return card(
    `${list.length - ended} live, ${ended} ended`,
    plainTable([...COLUMNS, ...numbers], rows, "targets"),
  );
}

function processCell({ pid, rank, command }: Facts) {
  return [
    h("a", { href: link("overview", { target: pid }) }, String(pid)),
    rank === null ? null : h("span", { class: "quiet-text" }, ` rank ${rank}`),
    h("div", { class: "mono quiet-text" }, shortCommand(command)),
  ];
}

function ending({ crash }: Facts) {
  if (!crash) return null;
  const how = crash.signal ?? (crash.exit_code === null ? crash.reason : `exit code ${crash.exit_code}`);
  return h("div", { class: "quiet-text" }, `${how}${crash.message ? `: ${crash.message}` : ""}`);
}

function oneTarget(list: Facts[], pid: number, stillness: Stillness): HTMLElement {
  const facts = list[0];
  if (!facts)
    return card(
      null,
      empty(`Nothing is known of process ${pid}`, "It may have ended, or belong to somebody else."),
    );
  const { process, python, how } = facts;
  return card(
    h("span", { class: "mono command-line" }, facts.command || process?.cmdline || String(pid)),
    h(
      "dl",
      { class: "facts" },
      fact("State", [stateBadge(facts), " ", stillBadge(facts, stillness), ending(facts)]),
      fact("pid", facts.rank === null ? String(pid) : `${pid}, rank ${facts.rank}`),
      fact("Python", python || "–"),
      fact("Probe", how ? `${facts.version}, ${how}` : "none: seen from outside"),
      fact("CPU", percent(facts.cpu)),
      fact("Memory", bytes(process?.rss)),
      facts.gpu === null ? null : fact("GPU", gpuText(facts)),
      fact("Mapped", bytes(process?.vms)),
      fact("Threads", integer(process?.threads)),
      fact("Open files", integer(process?.fds)),
      fact("Children", integer(facts.children)),
      fact("Running for", process ? span(facts.upSeconds) : "–"),
      facts.step === null ? null : fact("Step", integer(facts.step)),
      facts.stepSeconds === null ? null : fact("Step time", seconds(facts.stepSeconds)),
    ),
    h(
      "p",
      { class: "where" },
      "Main thread: ",
      h("a", { class: "mono", href: link("stacks", { target: pid }) }, whereText(facts)),
    ),
  );
}
