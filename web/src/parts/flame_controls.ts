// What can be chosen on the flame page; every choice is in the address.
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

// `on` says what happens; its `search` returns what it found.
export function makeFlameControls(params: URLSearchParams, on: FlameActions) {
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
  const shown = choice("Show", SHOWN, params.get("shown"), (value) => on.changed({ shown: value }));
  const byThread = check("By thread", is("threads"), (value) => on.changed({ threads: value }));
  const byLine = check("By line", is("lines"), (value) => on.changed({ lines: value }));
  const inverted = check("Upwards", is("up"), (value) => on.changed({ up: value }));
  const search = h("input", {
    type: "search",
    placeholder: "Search (regular expression)",
    "aria-label": "Search",
    value: params.get("find") ?? "",
  });
  const matched = h("span", { class: "quiet-text", role: "status" });
  const about = h("span", { class: "quiet-text" });
  const button: (text: string, action: () => void, title?: string) => HTMLButtonElement = (
    text,
    action,
    title,
  ) => h("button", { type: "button", title, onclick: action }, text);
  const baseline = button(
    "Set as baseline",
    () => on.keepBaseline(),
    "Compare later recordings with this one",
  );
  const find = () => (matched.textContent = on.search(search.value));
  search.addEventListener("input", () => {
    setParams({ find: search.value });
    find();
  });
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
      h("label", {}, "Show", shown.node),
      [byThread, byLine, inverted].map(({ node }) => node),
    ),
    above: h(
      "div",
      { class: "toolbar" },
      search,
      matched,
      button("Reset zoom", () => on.resetZoom()),
      h("span", { class: "grow" }),
      about,
    ),
    below: h(
      "div",
      { class: "toolbar" },
      baseline,
      button("Save collapsed stacks", () => on.save()),
    ),
    seconds: () => Number(seconds.value),
    following: following.on,
    interval: () => Number(interval.value()),
    withBefore: () => before.on() && interval.value() !== "",
    native: native.on,
    shown: shown.value,
    byThread: byThread.on,
    byLine: byLine.on,
    inverted: inverted.on,
    find,
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
