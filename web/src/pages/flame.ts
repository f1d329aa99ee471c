// Where the time goes: a recording of some seconds, or what is sampled all the time, as a flame graph.
import "../style/flame_graph.css";
import { asFailure, get, post, records } from "../lib/api";
import { download, h } from "../lib/dom";
import { collapsed, fromFolded, fromProfile, intervalSql, pastSql, select, splitInterval } from "../lib/flame_tree";
import { clock, seconds as secondsText } from "../lib/format";
import { rangeText, within } from "../lib/range";
import { foldedOf, oneStallSql, placeOf } from "../lib/stalls";
import { setParams } from "../lib/state";
import { jobName, targets } from "../lib/targets";
import { makeFlameControls } from "../parts/flame_controls";
import { FlameGraph } from "../parts/flame_graph";
import { card, empty, loading, Place } from "../parts/states";
import type { GetAnswers, Sampling } from "../types/api";
import type { Recorded } from "../types/flame";
import type { Changes, PageContext } from "../types/page";
import type { StallRow } from "../types/stalls";

const LIVE_MS = 2000;
const LIVE_SECONDS_APART = 0.02;
const AT_FIRST_S = 1;
const SAMPLED_NS = 1e8; // apart, where nobody says otherwise

export function mount({ root, params, target, range, signal, live }: PageContext<number>) {
  const place = new Place();
  const graph = new FlameGraph(params, signal, setParams);
  const ranks = ranksBeside(target);
  let recorded: Recorded | null = null;
  let before: Recorded | null = null; // of the interval before the one that is shown
  let baseline: Recorded | null = null;
  let startedHere = false;
  let mayStart = false; // somebody has switched it on here
  let unit = "samples"; // of weights
  const isPast = "from" in range || params.has("stall"); // a link to a time that is over
  const controls = makeFlameControls(
    params,
    {
      record: () => void take(controls.seconds()),
      changed: (changes) => redraw(changes),
      follow: (on) => {
        mayStart = on;
        void switchLive(on);
      },
      keepBaseline: () => keepBaseline(),
      interval: () => again(),
      save: () => download(`flame-${target}.txt`, "text/plain", collapsed(graph.shown())),
    },
    ranks.length > 1,
  );
  const body = card(null, graph.node);
  root.append(card(null, controls.main), place.node);

  function stacksOf(list: Recorded) {
    const all = list.flatMap(({ rank, profile, folded }) =>
      profile
        ? fromProfile(profile, { byLine: controls.byLine(), rank })
        : fromFolded(folded ?? [], { byLine: controls.byLine(), rank }),
    );
    return select(all, { shown: controls.shown() });
  }

  // Compared with the interval before, or with what somebody has kept.
  function redraw(changes: Changes = {}) {
    setParams(changes);
    if (!recorded) return;
    const list = stacksOf(recorded);
    if (list.length === 0) return place.show(nothingRan());
    const other = before ?? baseline;
    place.show(body);
    graph.set(list, other && other !== recorded ? stacksOf(other) : null, unit);
  }

  // Several are sampled at the same moments.
  async function record(seconds: number): Promise<Recorded> {
    const whom = controls.allRanks() ? { targets: ranks } : { target };
    return [{ rank: "", profile: await post("profile", { ...whom, seconds, native: controls.native() }, signal) }];
  }

  async function take(seconds: number) {
    setParams({ seconds: controls.seconds() === 3 ? "" : controls.seconds() });
    if (!recorded) place.show(loading(`Recording for ${seconds} s…`));
    controls.setRecording(true);
    try {
      recorded = await record(seconds);
      before = null;
      unit = "samples";
      place.fail(null);
      describe(recorded[0].profile!);
      redraw();
    } catch (error) {
      if (signal.aborted) return;
      if (!recorded) place.show(invitation());
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
    baseline = baseline ? null : recorded;
    controls.setBaseline(baseline !== null);
    redraw();
  }

  // What probingd samples all the time is shown; where it does not, it is asked to, and only then to stop again.
  async function setSampling(on: boolean) {
    startedHere = on;
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
    return splitInterval(await records(intervalSql(seconds, period), { target, signal }), folded);
  }

  async function switchLive(on: boolean) {
    try {
      if (!on && startedHere) await setSampling(false);
      place.fail(null);
      if (on) again();
    } catch (error) {
      if (!signal.aborted) place.fail(asFailure(error));
    }
  }

  async function showSamples(samples: GetAnswers["samples"]) {
    const interval = controls.interval();
    const parts = interval > 0 ? await readInterval(interval, samples) : null;
    recorded = [{ rank: "", folded: parts?.now ?? samples.folded }];
    before = controls.withBefore() && parts ? [{ rank: "", folded: parts.before }] : null;
    place.fail(null);
    describe(samples);
    redraw();
  }

  // A stall by its own stacks, which were read every few ms; another time by what was sampled then.
  async function readPast() {
    const stall = params.get("stall");
    if (stall !== null && /^\d+$/.test(stall)) {
      const [row] = await records<StallRow>(oneStallSql(stall), { target, signal });
      if (!row) return place.show(empty("This stall is no longer kept", "Newer ones have taken its place in memory."));
      unit = "ms";
      recorded = [{ rank: "", folded: foldedOf(row) }];
      controls.describe(`${row.kind.replaceAll("_", " ")} at ${clock(Number(row.timestamp_ns) / 1e6)}: ${secondsText(row.duration)} in ${placeOf(row)}`);
      return redraw();
    }
    const samples = await readSamples();
    const sql = pastSql(within(range), samples?.period_ns ?? SAMPLED_NS);
    const { now } = splitInterval(await records(sql, { target, signal }), samples?.folded ?? []);
    if (now.length === 0) return place.show(nothingSampled());
    recorded = [{ rank: "", folded: now }];
    const taken = now.reduce((sum, { weight }) => sum + weight, 0);
    controls.describe(`${taken} samples, ${rangeText(range)}`);
    redraw();
  }

  // Something to look at from the beginning: what was sampled anyway, else a recording of a moment, which is read
  // from outside and changes no setting.
  async function first() {
    const samples = await readSamples();
    if (samples && samples.folded.length > 0) await showSamples(samples);
    else await take(AT_FIRST_S);
  }

  const again = live(async () => {
    try {
      if (!controls.following()) return void (recorded === null && (await (isPast ? readPast() : first())));
      const samples = await readSamples();
      if (!samples?.running && !mayStart) return place.show(notSampled()); // a link changes no setting
      if (!samples?.running) return await setSampling(true);
      await showSamples(samples);
    } catch (error) {
      if (signal.aborted) return;
      if (!recorded) place.show(invitation());
      place.fail(asFailure(error));
    }
  }, LIVE_MS);
}

// The ranks of its job on this host, itself among them.
function ranksBeside(target: number) {
  const own = targets.find(target);
  const name = own && jobName(own);
  if (!name) return [];
  return targets.live
    .filter((one) => jobName(one) === name)
    .map(({ pid, job }) => ({ pid, rank: job?.rank }));
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

function nothingSampled() {
  return empty(
    "Nothing was sampled in this time",
    "probingd samples every probed process ten times a second and keeps the last minutes. Record takes a new picture.",
  );
}

function nothingRan() {
  return h(
    "div",
    {},
    empty("Nothing was running", "In this time every thread waited. Choose “waiting threads too” to see where."),
  );
}
