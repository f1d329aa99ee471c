// What is recorded for the flame page, and what of it is shown; every choice is in the address.
import { h } from "../lib/dom";
import { setParams } from "../lib/state";
import { check, choice } from "./controls";
import type { FlameActions } from "../types/flame";
import type { Option } from "../types/page";

const SHOWN: Option[] = [
  ["active", "threads that run"],
  ["gil", "holders of the GIL"],
  ["all", "waiting threads too"],
];

// Of what is sampled all the time.
const INTERVALS: Option[] = [
  ["", "all of it"],
  ["10", "the last 10 seconds"],
  ["60", "the last minute"],
  ["300", "the last 5 minutes"],
  ["1800", "the last 30 minutes"],
];

// `on` says what happens. `hasRanks`: the process is one of several ranks.
export function makeFlameControls(params: URLSearchParams, on: FlameActions, hasRanks: boolean) {
  const is = (name: string) => params.get(name) === "1";
  const seconds = h("input", {
    type: "number",
    min: "0.1",
    max: "600",
    step: "any",
    "aria-label": "seconds",
    value: params.get("seconds") ?? "3",
  });
  const record = h("button", { class: "primary", type: "button", onclick: () => on.record() }, "Record");
  const following = check("Continuous", is("live"), (value) => {
    setParams({ live: value });
    record.disabled = value;
    sampled.hidden = !value;
    on.follow(value);
  });
  const interval = choice("Interval", INTERVALS, params.get("interval"), (value) => {
    setParams({ interval: value });
    before.node.hidden = value === "";
    on.interval();
  });
  const before = check("Compare with the time before", is("before"), (value) => {
    setParams({ before: value });
    on.interval();
  });
  before.node.hidden = interval.value() === "";
  const sampled = h("span", { class: "toolbar" }, interval.node, before.node);
  sampled.hidden = !is("live");
  const native = check("Native frames", is("native"), (value) => setParams({ native: value }));
  const allRanks = check("All ranks of the job", is("job_ranks"), (value) => setParams({ job_ranks: value }));
  allRanks.node.hidden = !hasRanks;
  const shown = choice("Show", SHOWN, params.get("shown"), (value) => on.changed({ shown: value }));
  const byLine = check("By line", is("lines"), (value) => on.changed({ lines: value }));
  const about = h("span", { class: "quiet-text" });
  const baseline = h(
    "button",
    { type: "button", title: "Compare later recordings with this one", onclick: () => on.keepBaseline() },
    "Set as baseline",
  );
  record.disabled = following.on();

  return {
    main: h(
      "div",
      { class: "toolbar" },
      h("label", {}, seconds, "seconds"),
      record,
      following.node,
      sampled,
      native.node,
      allRanks.node,
      h("label", {}, "Show", shown.node),
      byLine.node,
      h("span", { class: "grow" }),
      about,
      baseline,
      h("button", { type: "button", onclick: () => on.save() }, "Save collapsed stacks"),
    ),
    seconds: () => Number(seconds.value),
    following: following.on,
    interval: () => Number(interval.value()),
    withBefore: () => before.on() && interval.value() !== "",
    native: native.on,
    allRanks: () => hasRanks && allRanks.on(),
    shown: shown.value,
    byLine: byLine.on,
    describe: (text: string) => (about.textContent = text),
    setRecording: (value: boolean) => {
      record.disabled = value || following.on();
      record.textContent = value ? "Recording…" : "Record";
    },
    setBaseline: (value: boolean) => {
      baseline.setAttribute("aria-pressed", String(value));
      baseline.textContent = value ? "Forget the baseline" : "Set as baseline";
    },
  };
}
