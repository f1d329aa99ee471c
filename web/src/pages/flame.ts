// Where the time goes: a recording of some seconds, or what is sampled all the time, as a flame graph.
import { asFailure, get, post, records } from "../lib/api";
import { download, fill, h } from "../lib/dom";
import {
  buildTree,
  collapsed,
  fromFolded,
  fromProfile,
  intervalSql,
  ranking,
  select,
  splitInterval,
} from "../lib/flame_tree";
import { setParams } from "../lib/state";
import { makeFlameControls } from "../parts/flame_controls";
import { FlameView, percentOf } from "../parts/flame_view";
import { plainTable } from "../parts/plain_table";
import { card, empty, loading, Place } from "../parts/states";
import type { GetAnswers, Sampling } from "../types/api";
import type { FlameStack, FlameState, IntervalRow, Recorded } from "../types/flame";
import type { Changes, PageContext } from "../types/page";
import type { PlainColumn } from "../types/tables";

const LIVE_MS = 2000;
const LIVE_SECONDS_APART = 0.02;

export function mount({ root, params, target, signal, live }: PageContext<number>) {
  const place = new Place(invitation());
  const view = new FlameView(signal);
  const state: FlameState = {
    profile: null,
    folded: null,
    before: null,
    baseline: null,
    startedHere: false,
    mayStart: false,
  };
  const controls = makeFlameControls(params, {
    record: () => take(),
    changed: (changes) => redraw(changes),
    follow: (on) => {
      state.mayStart = on;
      void switchLive(on);
    },
    search: (word) => view.search(word),
    resetZoom: () => view.reset(),
    keepBaseline: () => keepBaseline(),
    interval: () => again(),
    save: () => download(`flame-${target}.txt`, "text/plain", collapsed(stacks())),
  });
  const top = h("div", {});
  const body = h("div", { class: "page" }, card(null, controls.above, view.node, controls.below), top);
  fill(root, card(null, controls.main), place.node);

  const shown = () => state.profile ?? state.folded;

  function stacksOf(recorded: Recorded) {
    const options = { byLine: controls.byLine() };
    const all = Array.isArray(recorded) ? fromFolded(recorded, options) : fromProfile(recorded, options);
    return select(all, { shown: controls.shown() });
  }

  function stacks() {
    return stacksOf(shown() ?? []);
  }

  function treeOf(list: FlameStack[]) {
    return buildTree(list, { byThread: controls.byThread() });
  }

  // What is compared with: the interval before, or what somebody has kept.
  function baselineTree() {
    const other = (state.profile ? null : state.before) ?? state.baseline;
    const list = other && other !== shown() ? stacksOf(other) : [];
    return list.length > 0 ? treeOf(list) : null;
  }

  function redraw(changes: Changes = {}) {
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
      place.fail(asFailure(error));
    } finally {
      controls.setRecording(false);
    }
  }

  function describe({ samples_taken: taken, period_ns: period, lost }: Sampling) {
    const missing = Object.values(lost).reduce((sum, count) => sum + count, 0);
    const rate = `${taken} samples, one every ${(period / 1e6).toFixed(0)} ms`;
    controls.describe(missing ? `${rate}, ${missing} lost` : rate);
  }

  function keepBaseline() {
    state.baseline = state.baseline ? null : shown();
    controls.setBaseline(state.baseline !== null);
    redraw();
  }

  // What probingd samples all the time is shown; where it does not, it is asked to, and only then to stop again.
  async function setSampling(on: boolean) {
    state.startedHere = on;
    const set: Record<string, number | boolean> = { "probing.sample_rate": on ? LIVE_SECONDS_APART : 0 };
    if (on) set["probing.sample_native"] = controls.native();
    await post("config", { target, set }, signal);
  }

  // Null when the process is not sampled: that is an error to the API.
  async function readSamples() {
    try {
      return await get(`samples?target=${target}`, signal);
    } catch (error) {
      if (asFailure(error).code === "failed") return null;
      throw error;
    }
  }

  // The last seconds of the samples, and as many before them.
  async function readInterval(seconds: number, { folded, period_ns: period }: GetAnswers["samples"]) {
    const names = new Map(folded.map(({ tid, thread_name: name }) => [tid, name]));
    const rows = await records<IntervalRow>(intervalSql(seconds, period), { target, signal });
    return splitInterval(rows, names);
  }

  async function switchLive(on: boolean) {
    try {
      if (!on && state.startedHere) await setSampling(false);
      place.fail(null);
      if (on) again();
    } catch (error) {
      if (!signal.aborted) place.fail(asFailure(error));
    }
  }

  const again = live(async () => {
    if (!controls.following()) return;
    try {
      const samples = await readSamples();
      if (!samples?.running && !state.mayStart) return place.show(notSampled()); // a link changes no setting
      if (!samples?.running) return await setSampling(true);
      const interval = controls.interval();
      const parts = interval > 0 ? await readInterval(interval, samples) : null;
      Object.assign(state, { folded: parts?.now ?? samples.folded, profile: null });
      state.before = controls.withBefore() ? (parts?.before ?? null) : null;
      place.fail(null);
      describe(samples);
      redraw();
    } catch (error) {
      if (!signal.aborted) place.fail(asFailure(error));
    }
  }, LIVE_MS);
}

function invitation() {
  return empty(
    "Nothing recorded yet",
    "Record some seconds. The process is read from outside, 100 times a second; it needs no probe and does not stop.",
  );
}

function notSampled() {
  return empty("This process is not sampled", "Switch “Continuous” off and on again to start sampling it.");
}

function nothingRan() {
  return empty(
    "Nothing was running",
    "In this time every thread waited. Choose “waiting threads too” to see where.",
  );
}

function functions(list: FlameStack[]) {
  const { all, list: entries } = ranking(list);
  const rows = entries.map(({ label, self, total }) => [percentOf(self, all), percentOf(total, all), label]);
  const columns: PlainColumn[] = [
    ["Own", "number"],
    ["With callees", "number"],
    ["Function", "mono"],
  ];
  return card("Functions", plainTable(columns, rows));
}
