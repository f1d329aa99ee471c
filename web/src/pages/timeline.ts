// Steps and their phases, modules, collectives, spans, collections, exceptions and counters on one axis, by rank.
import { download, fill, h } from "../lib/dom";
import { integer, seconds } from "../lib/format";
import { bounds, within } from "../lib/range";
import { setParams } from "../lib/state";
import { followQueries, recordsOf } from "../lib/stream";
import { groupsOf, sumsOf, timelineQueries, toChromeTrace } from "../lib/timeline";
import { plainTable } from "../parts/plain_table";
import { card, empty, Place } from "../parts/states";
import { TimelineView } from "../parts/timeline_view";
import type { Rows } from "../types/api";
import type { PageContext } from "../types/page";
import type { PlainColumn } from "../types/tables";
import type { Group, Span } from "../types/training";

const SECONDS = 2;
const MOST_SUMS = 30;
const COLUMNS: PlainColumn[] = [
  ["Track"],
  ["Name", "mono"],
  ["Count", "number"],
  ["Time", "number"],
  ["Of the range", "number"],
  ["Longest", "number"],
];

export function mount({ root, params, target, job, range, signal }: PageContext) {
  const place = new Place();
  const sums = h("div", { class: "sums" });
  const view = new TimelineView(signal, (span) => tell(span));
  let groups: Group[] = [];
  const save = () =>
    download(`timeline-${target ?? job ?? "all"}.json`, "application/json", JSON.stringify(toChromeTrace(groups)));
  const found = h("span", { class: "quiet-text", role: "status" });
  const search = h("input", {
    type: "search",
    placeholder: "Search names and details",
    "aria-label": "Search",
    value: params.get("find") ?? "",
    oninput: () => {
      setParams({ find: search.value });
      found.textContent = view.find(search.value);
    },
    onkeydown: (event) => {
      if (event.key === "Enter") view.next(event.shiftKey ? -1 : 1);
    },
  });
  const nothing = empty(
    "Nothing happened in this time",
    "Garbage collections and exceptions come from the probe, steps and modules from `probing -t <pid> config probing.torch.profiling=on`, spans from the job itself:",
    ['with probing.span("load"): batch = next(loader)'],
  );
  const keys = [
    ["W S", "zoom"],
    ["A D", "move"],
    ["Shift and drag, or M", "sums of a range"],
    ["N", "next found"],
    ["Esc", "all"],
  ].map(([key, what]) => h("span", {}, h("kbd", {}, key), ` ${what}`));
  const body = h("div", { class: "page" }, card(null, view.node, h("p", { class: "quiet-text keys" }, keys)), sums);
  fill(
    root,
    h(
      "div",
      { class: "toolbar" },
      search,
      found,
      h("button", { type: "button", onclick: () => view.setWindow(null) }, "Show all"),
      h("span", { class: "grow" }),
      h(
        "button",
        { type: "button", title: "Opens in ui.perfetto.dev and chrome://tracing", onclick: save },
        "Save for Perfetto",
      ),
    ),
    place.node,
  );

  function tell(span: Span | null) {
    if (!span) return fill(sums);
    const length = span[1] - span[0];
    const rows = sumsOf(groups, span[0], span[1])
      .slice(0, MOST_SUMS)
      .map(({ track, name, count, ms, longest }) => [
        track,
        name,
        integer(count),
        seconds(ms / 1000),
        `${((100 * ms) / length).toFixed(1)} %`,
        seconds(longest / 1000),
      ]);
    return fill(sums, card(`In ${seconds(length / 1000)}`, plainTable(COLUMNS, rows)));
  }

  function draw(results: Record<string, Rows>) {
    groups = groupsOf(recordsOf(results));
    const { from, to } = bounds(range);
    const starts = groups.flatMap(({ tracks }) => tracks.map(({ events, points }) => events[0]?.start ?? points[0]?.[0]));
    const first = Math.min(...starts.filter((at) => at !== undefined), to);
    const isEmpty = groups.every(({ tracks }) => tracks.every(({ kind }) => kind === "counter"));
    place.show(isEmpty ? nothing : body);
    view.set(groups, Math.max(from, first - 0.02 * (to - first)), to); // not before there is anything
    if (search.value) found.textContent = view.find(search.value);
  }

  followQueries(() => timelineQueries(within(range, job)), {
    target,
    seconds: SECONDS,
    signal,
    heard: draw,
    failed: (error) => place.fail(error),
  });
}
