// All processes of this host at one glance, or one of them: facts, CPU and memory, where its main thread is.
import { fill, h } from "../lib/dom.js";
import { bytes, integer, percent, seconds, shortFile, span } from "../lib/format.js";
import { link } from "../lib/state.js";
import { shortCommand } from "../lib/targets.js";
import { loadFacts, Stillness } from "../lib/target_facts.js";
import { plainTable } from "../parts/plain_table.js";
import { SeriesBoard, rangePicker } from "../parts/series.js";
import { card, empty, fact, Place } from "../parts/states.js";

const EVERY_MS = 2000;
const STILL_S = 10; // as long as that at one place without CPU: worth a look
const BUSY_PERCENT = 5;

const ONE_TARGET = [
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
const ALL_TARGETS = [
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

export function mount({ root, params, target, signal, live }) {
  const place = new Place();
  const board = new SeriesBoard(target ? ONE_TARGET : ALL_TARGETS, signal);
  const range = rangePicker(params, () => board.again());
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
  const shown = (some) => (noSeries.hidden = some || !target);
  board.follow({ target, minutes: range.minutes, shown, place });
}

let nobodyNode = null;

function nobody() {
  nobodyNode ??= empty(
    "No process is probed on this host yet",
    "Enter a running Python process by its pid, or start one under the probe. It appears here by itself.",
    ["probing -t <pid> inject", "probing run -- python train.py", "PROBING=1 python train.py"],
  );
  return nobodyNode;
}

function stateBadge({ state, process }) {
  if (state === "ended") return h("span", { class: "badge" }, "ended");
  const kernel = process?.state ?? state;
  const kind = { running: "good", sleeping: "", disk: "warn", stopped: "bad", zombie: "bad" }[kernel] ?? "";
  return h("span", { class: `badge ${kind}` }, kernel);
}

function whereText({ at }) {
  return at ? `${at.func} (${shortFile(at.file)}:${at.lineno ?? "?"})` : "–";
}

function isBusy({ cpu, process }) {
  return cpu === null ? process?.state === "running" : cpu > BUSY_PERCENT;
}

function stillBadge(facts, stillness) {
  const still = stillness.secondsAt(facts.pid);
  if (facts.state === "ended" || still < STILL_S || isBusy(facts)) return null;
  return h(
    "span",
    { class: "badge warn", title: "The main thread has not moved and takes no CPU" },
    `still for ${span(still)}`,
  );
}

const COLUMNS = [
  ["Process"],
  ["State"],
  ["Main thread", "mono"],
  ...["Step", "Step time", "CPU", "Memory", "Up"].map((name) => [name, "number"]),
];

function table(list, stillness) {
  const rows = list.map((facts) => [
    processCell(facts),
    [stateBadge(facts), ending(facts)],
    [whereText(facts), " ", stillBadge(facts, stillness)],
    facts.step === null ? "–" : integer(facts.step),
    facts.stepSeconds === null ? "–" : seconds(facts.stepSeconds),
    percent(facts.cpu),
    bytes(facts.process?.rss),
    facts.process ? span(facts.upSeconds) : "–",
  ]);
  const ended = list.filter(({ state }) => state === "ended").length;
  return card(`${list.length - ended} live, ${ended} ended`, plainTable(COLUMNS, rows, "targets"));
}

function processCell({ pid, rank, command }) {
  return [
    h("a", { href: link("overview", { target: pid }) }, String(pid)),
    rank === null ? null : h("span", { class: "quiet-text" }, ` rank ${rank}`),
    h("div", { class: "mono quiet-text" }, shortCommand(command)),
  ];
}

function ending({ crash }) {
  if (!crash) return null;
  const how = crash.signal ?? (crash.exit_code === null ? crash.reason : `exit code ${crash.exit_code}`);
  return h("div", { class: "quiet-text" }, `${how}${crash.message ? `: ${crash.message}` : ""}`);
}

function oneTarget(list, pid, stillness) {
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
