// Where the time goes: a recording of some seconds, or what is sampled all the time, as a flame graph.
import { get, post } from "../lib/api.js";
import { download, fill, h } from "../lib/dom.js";
import { buildTree, collapsed, fromFolded, fromProfile, ranking, select } from "../lib/flame_tree.js";
import { setParams } from "../lib/state.js";
import { makeFlameControls } from "../parts/flame_controls.js";
import { FlameView, percentOf } from "../parts/flame_view.js";
import { plainTable } from "../parts/plain_table.js";
import { card, empty, loading, Place } from "../parts/states.js";

const LIVE_MS = 2000;
const LIVE_SECONDS_APART = 0.02;

export function mount({ root, params, target, signal, live }) {
  const place = new Place(invitation());
  const view = new FlameView(signal);
  const state = { profile: null, folded: null, baseline: null, startedHere: false };
  const controls = makeFlameControls(params, {
    record: () => take(),
    changed: (changes) => redraw(changes),
    follow: (on) => switchLive(on),
    search: (word) => view.search(word),
    resetZoom: () => view.reset(),
    keepBaseline: () => keepBaseline(),
    save: () => download(`flame-${target}.txt`, "text/plain", collapsed(stacks())),
  });
  const top = h("div", {});
  const body = h("div", { class: "page" }, card(null, controls.above, view.node, controls.below), top);
  fill(root, card(null, controls.main), place.node);

  function stacks() {
    const options = { byLine: controls.byLine() };
    const all = state.profile ? fromProfile(state.profile, options) : fromFolded(state.folded ?? [], options);
    return select(all, { shown: controls.shown() });
  }

  function treeOf(list) {
    return buildTree(list, { byThread: controls.byThread() });
  }

  function baselineTree() {
    if (!state.baseline || state.baseline === state.profile) return null;
    const all = fromProfile(state.baseline, { byLine: controls.byLine() });
    return treeOf(select(all, { shown: controls.shown() }));
  }

  function redraw(changes = {}) {
    setParams(changes);
    if (!state.profile && !state.folded) return;
    const list = stacks();
    if (list.length === 0) return place.show(nothingRan());
    view.inverted = controls.inverted();
    place.show(body);
    view.set(treeOf(list), baselineTree());
    controls.find();
    fill(top, functions(list));
  }

  async function take() {
    const seconds = controls.seconds();
    setParams({ seconds });
    const hasResult = state.profile || state.folded;
    if (!hasResult) place.show(loading(`Recording for ${seconds} s…`));
    controls.setRecording(true);
    try {
      state.profile = await post("profile", { target, seconds, native: controls.native() }, signal);
      state.folded = null;
      place.fail(null);
      describe(state.profile);
      redraw();
    } catch (error) {
      if (signal.aborted) return;
      if (!hasResult) place.show(invitation());
      place.fail(error);
    } finally {
      controls.setRecording(false);
    }
  }

  function describe({ samples_taken: taken, period_ns: period, lost }) {
    const missing = Object.values(lost).reduce((sum, count) => sum + count, 0);
    const rate = `${taken} samples, one every ${(period / 1e6).toFixed(0)} ms`;
    controls.describe(missing ? `${rate}, ${missing} lost` : rate);
  }

  function keepBaseline() {
    state.baseline = state.baseline ? null : state.profile;
    controls.setBaseline(state.baseline !== null);
    redraw();
  }

  // What probingd samples all the time is shown; where it does not, it is asked to, and only then to stop again.
  async function setSampling(on) {
    state.startedHere = on;
    const set = { "probing.sample_rate": on ? LIVE_SECONDS_APART : 0 };
    if (on) set["probing.sample_native"] = controls.native();
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
    try {
      if (!on && state.startedHere) await setSampling(false);
      place.fail(null);
      if (on) again();
    } catch (error) {
      if (!signal.aborted) place.fail(error);
    }
  }

  const again = live(async () => {
    if (!controls.following()) return;
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
  return empty(
    "Nothing recorded yet",
    "Record some seconds. The process is read from outside, 100 times a second; it needs no probe and does not stop.",
  );
}

function nothingRan() {
  return empty(
    "Nothing was running",
    "In this time every thread waited. Choose “waiting threads too” to see where.",
  );
}

function functions(list) {
  const { all, list: entries } = ranking(list);
  const rows = entries.map(({ label, self, total }) => [percentOf(self, all), percentOf(total, all), label]);
  const columns = [
    ["Own", "number"],
    ["With callees", "number"],
    ["Function", "mono"],
  ];
  return card("Functions", plainTable(columns, rows));
}
