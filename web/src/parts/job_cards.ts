// Jobs at a glance: is it well, how fast does it go, and what is wrong, with the way to the page that answers.
import { answerOf, mergeAlike, verdict } from "../lib/findings";
import { fill, h } from "../lib/dom";
import { bytes, integer, number, percent, seconds, shortFile, span } from "../lib/format";
import { findingsOf, rateNow, ratesOf } from "../lib/jobs";
import { link } from "../lib/state";
import { shortCommand } from "../lib/targets";
import { ranges } from "../lib/cluster";
import { plainTable } from "./plain_table";
import { sparkline } from "./sparkline";
import { command, fact } from "./states";
import type { Finding, Found } from "../types/api";
import type { Child } from "../types/page";
import type { Facts, Job, RateRow } from "../types/targets";

export function verdictBadge(findings: Finding[] | null, live: number): HTMLElement {
  const { kind, text } = verdict(findings, live);
  return h("span", { class: `badge state-badge ${kind}` }, h("span", { class: "dot" }), text);
}

export function whereText({ at }: Facts) {
  if (!at) return "–";
  const inside = at.leaf && at.leaf !== at.func ? ` › ${at.leaf}` : "";
  return `${at.func} (${shortFile(at.file)}:${at.lineno ?? "?"})${inside}`;
}

export function endingText({ crash }: Facts): string {
  if (!crash) return "";
  const how = crash.signal ?? (crash.exit_code === null ? crash.reason : `exit code ${crash.exit_code}`);
  return `${how}${crash.message ? `: ${crash.message}` : ""}`;
}

// A link to the page that answers; what to do next can be copied.
export function findingLine(finding: Finding): HTMLElement {
  const { class: name, severity, ranks, evidence, next } = finding;
  const { page, params } = answerOf(finding);
  const who = ranks.length > 0 ? `${ranks.length > 1 ? "ranks" : "rank"} ${ranges(ranks)}` : "";
  return h(
    "li",
    { class: `finding ${severity}` },
    h(
      "a",
      { href: link(page, params) },
      h("strong", {}, name.replaceAll("_", " ")),
      who ? h("span", { class: "who" }, who) : null,
      h("span", {}, evidence),
    ),
    next ? command(next) : null,
  );
}

export function jobCard(job: Job, findings: Finding[] | null, rates: RateRow[]): HTMLElement {
  const { name, members, live, first } = job;
  const about = findings && findingsOf(job, findings);
  const series = ratesOf(job, rates);
  const speed = live.length > 0 ? rateNow(series) : null;
  const address = name !== null ? link("cluster", { job: name }) : link("overview", { target: first.pid });
  const sum = (of: (facts: Facts) => number | null | undefined) =>
    live.reduce<number | null>((all, one) => ((of(one) ?? null) === null ? all : (all ?? 0) + of(one)!), null);
  const { kind } = verdict(about, live.length);
  const steps = members.map(({ step }) => step).filter((step) => step !== null);
  return h(
    "article",
    { class: `card job-card ${kind}`, "data-job": name ?? String(first.pid) },
    h(
      "header",
      {},
      h("h2", {}, h("a", { href: address }, name ?? shortCommand(first.command).split(" ").slice(0, 3).join(" "))),
      verdictBadge(about, live.length),
    ),
    h("p", { class: "mono quiet-text one-line", title: first.command }, shortCommand(first.command)),
    h(
      "div",
      { class: "job-parts" },
      h(
        "div",
        {},
        sparkline(series, speed === null ? "no steps yet" : `${number(speed)} steps a second`),
        h(
          "dl",
          { class: "facts small" },
          speed === null ? null : fact("Steps/s", number(Number(speed.toPrecision(3)))),
          steps.length > 0 ? fact("Step", integer(Math.max(...steps))) : null,
          first.stepSeconds === null ? null : fact("Step time", seconds(first.stepSeconds)),
          name === null ? fact("pid", String(first.pid)) : fact("Ranks", ranksText(job)),
          fact("CPU", percent(sum(({ cpu }) => cpu))),
          fact("Memory", bytes(sum(({ process }) => process?.rss))),
          sum(({ gpu }) => gpu?.bytes) === null ? null : fact("GPU memory", bytes(sum(({ gpu }) => gpu?.bytes))),
          first.process && live.length > 0 ? fact("Up", span(first.upSeconds)) : null,
        ),
      ),
      h(
        "div",
        {},
        about && about.length > 0 ? h("ul", { class: "findings" }, mergeAlike(about).map(findingLine)) : null,
        live.length > 0 ? placesOf(live) : null,
        live.length < members.length ? endedOf(members.filter((one) => !live.includes(one)), live.length === 0) : null,
      ),
    ),
  );
}

function ranksText({ members, live, size }: Job): string {
  const of = size ?? members.length;
  return live.length === of ? String(of) : `${live.length} of ${of}`;
}

// Where each main thread is; many ranks are folded away.
function placesOf(members: Facts[]): HTMLElement {
  const list = placeList(members, (one) => h("span", { class: "mono" }, whereText(one)));
  if (members.length <= 8) return list;
  return h("details", {}, h("summary", {}, `${members.length} processes`), list);
}

// How they ended; those of an earlier run are folded away.
function endedOf(members: Facts[], isAll: boolean): HTMLElement {
  const list = placeList(members, (one) => h("span", { class: "bad-text" }, `ended ${endingText(one)}`));
  return isAll ? list : h("details", { class: "quiet-text" }, h("summary", {}, `${members.length} ended`), list);
}

function placeList(members: Facts[], what: (one: Facts) => Child) {
  const item = (one: Facts) =>
    h(
      "li",
      {},
      h(
        "a",
        { href: link("overview", { target: one.pid }), title: `pid ${one.pid}` },
        one.rank === null ? String(one.pid) : `rank ${one.rank}`,
      ),
      what(one),
    );
  return h("ul", { class: "places" }, members.map(item));
}

// Processes that nobody has put a probe into; `inject` makes the button.
export function withoutProbe(list: Found[], inject: (pid: number) => Child): HTMLElement {
  const rows = list.map(({ pid, command: text, cpu_percent: cpu, rss, doing, job, rank }) => [
    [
      h("a", { href: link("stacks", { target: pid }) }, String(pid)),
      job ? h("span", { class: "quiet-text" }, ` ${job}${rank === null ? "" : ` rank ${rank}`}`) : null,
    ],
    [h("div", { class: "mono one-line", title: text }, shortCommand(text)), h("div", { class: "quiet-text mono" }, doing ?? "")],
    percent(cpu),
    bytes(rss),
    inject(pid),
  ]);
  return plainTable([["Process"], ["Runs"], ["CPU", "number"], ["Memory", "number"], [""]], rows, "unprobed");
}

// The same elements stay while nothing has changed, so that a click is not lost.
export class Kept {
  private shown = "";
  constructor(readonly node: HTMLElement) {}
  fill(what: unknown, make: () => Child): void {
    const text = JSON.stringify(what, (_key, value) => (typeof value === "bigint" ? String(value) : value));
    if (text === this.shown) return;
    this.shown = text;
    fill(this.node, make());
  }
}
