// The jobs of this host: which of them is in trouble, and why; or one process.
import { ApiError, asFailure, get, records } from "../lib/api";
import { fill, h } from "../lib/dom";
import { bytes, integer, percent, seconds, span } from "../lib/format";
import { verdict } from "../lib/findings";
import { findingsOf, jobsOfFacts, RATES_SQL } from "../lib/jobs";
import { within } from "../lib/range";
import { link } from "../lib/state";
import { loadFacts, Stillness } from "../lib/target_facts";
import { actionBar, injectButton } from "../parts/actions";
import { endingText, findingLine, jobCard, Kept, verdictBadge, whereText, withoutProbe } from "../parts/job_cards";
import { SeriesBoard } from "../parts/series";
import { card, empty, fact, Place } from "../parts/states";
import type { Finding, Found } from "../types/api";
import type { Child, PageContext } from "../types/page";
import type { SeriesSpec } from "../types/tables";
import type { Facts, Job, RateRow } from "../types/targets";

const EVERY_MS = 2000;
const DIAGNOSE_MS = 5000;
const FIND_MS = 5000;
const STILL_S = 10; // as long as that at one place without CPU: worth a look
const BUSY_PERCENT = 5;

const ONE_TARGET: SeriesSpec[] = [
  {
    title: "CPU, % of one core",
    unit: "%",
    sql: "SELECT timestamp, cpu_percent, system_percent, children_percent FROM system.cpu WHERE {since} ORDER BY 1",
    names: { cpu_percent: "process", system_percent: "of it in the kernel", children_percent: "its children" },
  },
  {
    title: "Memory",
    unit: "bytes",
    sql: "SELECT timestamp, rss, children_rss FROM system.memory WHERE {since} ORDER BY 1",
    names: { rss: "resident", children_rss: "its children" },
  },
];

export function mount(context: PageContext) {
  if (context.target) mountOne(context as PageContext<number>);
  else mountAll(context);
}

function mountAll({ root, job: only, signal, live }: PageContext) {
  const place = new Place();
  const cards = new Kept(h("div", { class: "cards jobs" }));
  const others = new Kept(h("div", {}));
  const said = h("p", { class: "quiet-text", role: "status" });
  const unprobed = card("Python processes without a probe", said, others.node);
  unprobed.hidden = true;
  let findings: Finding[] | null = null;
  let found: Found[] = [];

  const draw = (facts: Facts[], rates: RateRow[]) => {
    const jobs = jobsOfFacts(facts)
      .filter(({ name }) => only === null || name === only)
      .sort((a, b) => urgency(a, findings) - urgency(b, findings));
    cards.fill([facts, rates, findings], () => jobs.map((job) => jobCard(job, findings, rates)));
    unprobed.hidden = found.length === 0;
    others.fill(found, () =>
      withoutProbe(found, (pid) =>
        injectButton(pid, (what) => fill(said, `${pid}: `, what), () => lookAround(), "small primary"),
      ),
    );
    if (jobs.length === 0) fill(cards.node, nobody(found.length > 0));
    place.show(body);
  };
  const body = h("div", { class: "page" }, cards.node, unprobed);
  fill(root, place.node);
  const again = live(
    async () => {
      const [facts, rates] = await Promise.all([
        loadFacts(null, signal),
        records<RateRow>(RATES_SQL, { signal }).catch(() => []),
      ]);
      draw(facts, rates);
    },
    EVERY_MS,
    place,
  );
  live(async () => {
    findings = (await get(only ? `diagnose?job=${encodeURIComponent(only)}` : "diagnose", signal)).findings;
    again();
  }, DIAGNOSE_MS);
  const lookAround = live(async () => {
    const { processes } = await get("processes", signal);
    found = processes.filter(({ probed }) => !probed);
    again();
  }, FIND_MS);
}

// What is in trouble stands first, what has ended last.
function urgency(job: Job, findings: Finding[] | null): number {
  const about = findings && findingsOf(job, findings);
  return ["bad", "warn", "good", ""].indexOf(verdict(about, job.live.length).kind);
}

// Below the cards there may be processes that have none yet.
function nobody(hasOthers: boolean) {
  return empty(
    "No process is probed on this host yet",
    hasOthers
      ? "Inject one of those below, or start a program under the probe. It appears here by itself."
      : "Enter a running Python process by its pid, or start one under the probe. It appears here by itself.",
    ["probing -t <pid> inject", "probing run -- python train.py", "PROBING=1 python train.py"],
  );
}

function mountOne({ root, target, range, signal, live }: PageContext<number>) {
  const place = new Place();
  const board = new SeriesBoard(ONE_TARGET, signal);
  const summary = h("div", {});
  const bar = new Kept(h("div", {}));
  const stillness = new Stillness();
  const noSeries = empty("No series of CPU and memory", "They are written about processes with a probe.", [
    `probing -t ${target} inject`,
  ]);
  noSeries.hidden = true;
  let findings: Finding[] | null = null;
  const body = h("div", { class: "page" }, summary, bar.node, board.node, noSeries);
  fill(root, place.node);
  const again = live(
    async () => {
      const facts = (await loadFacts(target, signal))[0];
      if (!facts) throw gone(target);
      stillness.see([facts]);
      fill(summary, oneTarget(facts, stillness, findings));
      const isProbed = Boolean(facts.how);
      bar.fill([isProbed, facts.state], () => (facts.state === "ended" ? null : actionBar(target, isProbed)));
      place.show(body);
    },
    EVERY_MS,
    place,
  );
  live(async () => {
    findings = (await get(`diagnose?target=${target}`, signal).catch(orNone)).findings;
    again();
  }, DIAGNOSE_MS);
  board.follow({ target, when: within(range), shown: (some) => (noSeries.hidden = some), place });
}

// Of a process without a probe nothing may be known.
function orNone(error: unknown): { findings: Finding[] } {
  if (asFailure(error).name === "AbortError") throw error;
  return { findings: [] };
}

// Without a probe nobody tells when a process ends.
function gone(pid: number) {
  const message = `Nothing is known of process ${pid}`;
  return new ApiError({ code: "not_found", message, hint: "It has ended, or belongs to somebody else." });
}

function stateBadge({ state, process }: Facts) {
  if (state === "ended") return h("span", { class: "badge bad" }, "ended");
  const kernel = process?.state ?? state;
  const kind = { running: "good", sleeping: "", disk: "warn", stopped: "bad", zombie: "bad" }[kernel] ?? "";
  return h("span", { class: `badge ${kind}` }, kernel);
}

function isBusy({ cpu, process }: Facts) {
  return cpu === null ? process?.state === "running" : cpu > BUSY_PERCENT;
}

function stillBadge(facts: Facts, stillness: Stillness): HTMLElement | null {
  const still = stillness.secondsAt(facts.pid);
  if (facts.state === "ended" || still < STILL_S || isBusy(facts)) return null;
  const title = "The main thread has not moved and takes no CPU";
  return h("span", { class: "badge warn", title }, `still for ${span(still)}`);
}

function oneTarget(facts: Facts, stillness: Stillness, findings: Finding[] | null): HTMLElement {
  const { process, python, how, pid, gpu } = facts;
  const ended = facts.state === "ended";
  const about = findings && findingsOf(jobsOfFacts([facts])[0], findings);
  const head: Child = [
    h("span", { class: "mono command-line" }, facts.command || process?.cmdline || String(pid)),
    " ",
    ended || about === null ? null : verdictBadge(about, 1),
  ];
  return card(
    head,
    about && about.length > 0 ? h("ul", { class: "findings" }, about.map(findingLine)) : null,
    h(
      "dl",
      { class: "facts" },
      fact("State", [stateBadge(facts), " ", stillBadge(facts, stillness), ended ? ` ${endingText(facts)}` : null]),
      fact("pid", facts.rank === null ? String(pid) : `${pid}, rank ${facts.rank}`),
      fact("Python", python || "–"),
      fact("Probe", how ? `${facts.version}, ${how}` : "none: seen from outside"),
      fact("CPU", percent(facts.cpu)),
      fact("Memory", bytes(process?.rss)),
      gpu === null ? null : fact("GPU", `${percent(gpu.percent)}, ${bytes(gpu.bytes)}`),
      fact("Mapped", bytes(process?.vms)),
      fact("Threads", integer(process?.threads)),
      fact("Open files", integer(process?.fds)),
      fact("Children", integer(facts.children)),
      fact("Running for", process ? span(facts.upSeconds) : "–"),
      facts.step === null ? null : fact("Step", integer(facts.step)),
      facts.stepSeconds === null ? null : fact("Step time", seconds(facts.stepSeconds)),
    ),
    ended
      ? null
      : h(
          "p",
          { class: "where" },
          "Main thread: ",
          h("a", { class: "mono", href: link("stacks", { target: pid }) }, whereText(facts)),
        ),
  );
}
