// Where the time goes: a recording of some seconds, or what is sampled all the time, as a flame graph.
import { get, post } from "../lib/api.js";
import { download, fill, h } from "../lib/dom.js";
import { buildTree, collapsed, fromFolded, fromProfile, ranking, select } from "../lib/flame_tree.js";
import { setParams } from "../lib/state.js";
import { check, choice } from "../parts/controls.js";
import { FlameView, percentOf } from "../parts/flame_view.js";
import { card, empty, loading, Place } from "../parts/states.js";

const LIVE_MS = 2000;
const LIVE_SECONDS_APART = 0.02;
const SHOWN = [
  ["active", "threads that run"],
  ["gil", "holders of the GIL"],
  ["all", "waiting threads too"],
];

export function mount(context) {
  const { root, params, target, signal, live } = context;
  const place = new Place(invitation());
  const view = new FlameView();
  signal.addEventListener("abort", () => view.observer.disconnect());
  const state = { profile: null, folded: null, baseline: null };

  const secondsInput = h("input", { type: "number", min: "0.1", max: "600", step: "any", "aria-label": "seconds", value: params.get("seconds") ?? "3" });
  const record = h("button", { class: "primary", type: "button", onclick: () => take() }, "Record");
  const liveCheck = check("Continuous", params.get("live") === "1", (on) => switchLive(on));
  const native = check("Native frames", params.get("native") === "1", (on) => setParams({ native: on }));
  const shown = choice("Show", SHOWN, params.get("shown"), (value) => redraw({ shown: value }));
  const byThread = check("By thread", params.get("threads") === "1", (on) => redraw({ threads: on }));
  const byLine = check("By line", params.get("lines") === "1", (on) => redraw({ lines: on }));
  const inverted = check("Flames upwards", params.get("up") === "1", (on) => redraw({ up: on }));
  const search = h("input", { type: "search", placeholder: "Search (regular expression)", "aria-label": "Search", value: params.get("find") ?? "" });
  const matched = h("span", { class: "quiet-text", role: "status" });
  const about = h("span", { class: "quiet-text" });
  const baseline = h("button", { type: "button", "aria-pressed": "false", title: "Compare later recordings with this one", onclick: () => keepBaseline() }, "Set as baseline");
  const top = h("div", {});
  const body = h(
    "div",
    { class: "page" },
    card(
      null,
      h("div", { class: "toolbar" }, search, matched, h("button", { type: "button", onclick: () => view.reset() }, "Reset zoom"), h("span", { class: "grow" }), about),
      view.node,
      h("div", { class: "toolbar" }, baseline, h("button", { type: "button", onclick: () => save() }, "Save collapsed stacks")),
    ),
    top,
  );
  fill(
    root,
    card(
      null,
      h(
        "div",
        { class: "toolbar" },
        h("label", {}, secondsInput, "seconds"),
        record,
        liveCheck.node,
        native.node,
        h("label", {}, "Show", shown.node),
        byThread.node,
        byLine.node,
        inverted.node,
      ),
    ),
    place.node,
  );
  search.addEventListener("input", () => {
    setParams({ find: search.value });
    matched.textContent = view.search(search.value);
  });

  function stacks() {
    const options = { byLine: byLine.on() };
    const all = state.profile ? fromProfile(state.profile, options) : fromFolded(state.folded ?? [], options);
    return select(all, { shown: shown.value() });
  }

  function redraw(changes = {}) {
    setParams(changes);
    if (!state.profile && !state.folded) return;
    const list = stacks();
    view.inverted = inverted.on();
    const before = state.baseline && state.baseline !== state.profile ? state.baseline : null;
    const tree = buildTree(list, { byThread: byThread.on() });
    const old = before ? buildTree(select(fromProfile(before, { byLine: byLine.on() }), { shown: shown.value() }), { byThread: byThread.on() }) : null;
    if (list.length === 0) {
      place.show(empty("Nothing was running", "In this time every thread waited. Choose “waiting threads too” to see where."));
      return;
    }
    place.show(body);
    view.set(tree, old);
    matched.textContent = view.search(search.value);
    fill(top, functions(list));
  }

  async function take() {
    const seconds = Number(secondsInput.value);
    setParams({ seconds: secondsInput.value });
    record.disabled = true;
    const hasResult = state.profile || state.folded;
    if (!hasResult) place.show(loading(`Recording for ${seconds} s…`));
    record.textContent = "Recording…";
    try {
      state.profile = await post("profile", { target, seconds, native: native.on() }, signal);
      state.folded = null;
      place.fail(null);
      describe(state.profile);
      redraw();
    } catch (error) {
      if (signal.aborted) return;
      if (!hasResult) place.show(invitation());
      place.fail(error);
    } finally {
      record.disabled = liveCheck.on();
      record.textContent = "Record";
    }
  }

  function describe({ samples_taken: taken, period_ns: period, lost }) {
    const missing = Object.values(lost).reduce((sum, count) => sum + count, 0);
    about.textContent = `${taken} samples, one every ${(period / 1e6).toFixed(0)} ms${missing ? `, ${missing} lost` : ""}`;
  }

  function keepBaseline() {
    state.baseline = state.baseline ? null : state.profile;
    baseline.setAttribute("aria-pressed", String(state.baseline !== null));
    baseline.textContent = state.baseline ? "Forget the baseline" : "Set as baseline";
    redraw();
  }

  function save() {
    download(`flame-${target}.txt`, "text/plain", collapsed(stacks()));
  }

  // What probingd samples all the time is shown; where it does not, it is asked to, and only then to stop again.
  async function setSampling(on) {
    state.startedHere = on;
    const set = { "probing.sample_rate": on ? LIVE_SECONDS_APART : 0 };
    if (on) set["probing.sample_native"] = native.on();
    await post("config", { target, set }, signal);
  }

  // Null when the process is not sampled: that is an error to the API.
  async function readSamples() {
    try {
      return await get(`samples?target=${target}`, signal);
    } catch (error) {
      if (error.code === "failed") return null;
      throw error;
    }
  }

  async function switchLive(on) {
    setParams({ live: on });
    record.disabled = on;
    try {
      if (!on && state.startedHere) await setSampling(false);
      place.fail(null);
      if (on) again();
    } catch (error) {
      if (!signal.aborted) place.fail(error);
    }
  }

  const again = live(async () => {
    if (!liveCheck.on()) return;
    try {
      const samples = await readSamples();
      if (!samples?.running) return await setSampling(true);
      Object.assign(state, { folded: samples.folded, profile: null });
      place.fail(null);
      describe(samples);
      redraw();
    } catch (error) {
      if (!signal.aborted) place.fail(error);
    }
  }, LIVE_MS);
}

function invitation() {
  return empty("Nothing recorded yet", "Record some seconds. The process is read from outside, 100 times a second; it needs no probe and does not stop.");
}

function functions(list) {
  const { all, list: entries } = ranking(list);
  const rows = entries.map(({ label, self, total }) =>
    h("tr", {}, h("td", { class: "number" }, percentOf(self, all)), h("td", { class: "number" }, percentOf(total, all)), h("td", { class: "mono" }, label)),
  );
  const head = h("tr", {}, h("th", { class: "number" }, "Own"), h("th", { class: "number" }, "With callees"), h("th", {}, "Function"));
  return card("Functions", h("div", { class: "scroll-x" }, h("table", { class: "plain" }, h("thead", {}, head), h("tbody", {}, rows))));
}
