// Steps, spans, collectives, collections and exceptions on one axis.
import { download, fill, h } from "../lib/dom";
import { setParams } from "../lib/state";
import { followQueries, recordsOf } from "../lib/stream";
import { eventsOf, timelineQueries, toChromeTrace } from "../lib/timeline";
import { choice } from "../parts/controls";
import { card, empty, Place } from "../parts/states";
import { TimelineView } from "../parts/timeline_view";
import type { Rows } from "../types/api";
import type { Option, PageContext } from "../types/page";
import type { TimelineEvent } from "../types/training";

const SECONDS = 2;
const RANGES: Option[] = [
  ["10", "10 seconds"],
  ["60", "1 minute"],
  ["300", "5 minutes"],
  ["1800", "30 minutes"],
];

export function mount({ root, params, target, signal }: PageContext) {
  const place = new Place();
  const view = new TimelineView(signal);
  let events: TimelineEvent[] = [];
  const range = choice("Time range", RANGES, params.get("seconds") ?? "10", (seconds) => {
    setParams({ seconds });
    view.setWindow(null);
    again();
  });
  const save = () =>
    download(`timeline-${target ?? "all"}.json`, "application/json", JSON.stringify(toChromeTrace(events)));
  const nothing = empty(
    "Nothing happened in this time",
    "Garbage collections and exceptions come from the probe, steps and modules from `probing -t <pid> config probing.torch.profiling=on`, spans from the job itself:",
    ['with probing.span("load"): batch = next(loader)'],
  );
  const body = card(
    null,
    view.node,
    h(
      "p",
      { class: "quiet-text" },
      "The wheel or + and − zoom, dragging or arrows move, a double click or Esc shows all. Moving stops following.",
    ),
  );
  fill(
    root,
    h(
      "div",
      { class: "toolbar" },
      h("label", {}, "Last", range.node),
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

  function draw(results: Record<string, Rows>) {
    events = eventsOf(recordsOf(results), target);
    const now = Date.now();
    place.show(events.length > 0 ? body : nothing);
    const first = events.reduce((least, { start }) => Math.min(least, start), now);
    const from = Math.max(now - Number(range.value()) * 1000, first - 0.02 * (now - first)); // not before there is anything
    view.set(events, from, now);
  }

  const again = followQueries(() => timelineQueries(range.value()), {
    target,
    seconds: SECONDS,
    signal,
    heard: draw,
    failed: (error) => place.fail(error),
  });
}
