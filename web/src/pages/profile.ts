// What torch's own profiler has seen: operators, kernels, what held the steps up, and all of it over time.
import { post, records } from "../lib/api";
import { fill, h } from "../lib/dom";
import { integer, number, seconds } from "../lib/format";
import { groupsOfProfile, PROFILE_QUERIES } from "../lib/profile";
import { setParams } from "../lib/state";
import { actionButton } from "../parts/actions";
import { check, choice } from "../parts/controls";
import { bars } from "../parts/bars";
import { plainTable } from "../parts/plain_table";
import { card, empty, fact, Place } from "../parts/states";
import { TimelineView } from "../parts/timeline_view";
import type { Child, PageContext } from "../types/page";
import type { PlainColumn } from "../types/tables";
import type { KernelCost, KernelRow, OpCost, OpRow, PathRow, UtilizationRow } from "../types/profile";

const us = (value: number | null) => (value === null ? "–" : seconds(value / 1e6));
const share = (value: number | null) => (value === null ? "–" : `${number(Number((100 * value).toPrecision(3)))} %`);

export function mount({ root, params, target, signal }: PageContext<number>) {
  const place = new Place();
  const said = h("span", { class: "quiet-text", role: "status" });
  const amount = h("input", { type: "number", min: "1", max: "3600", "aria-label": "how many", value: params.get("n") ?? "3" });
  const unit = choice(
    "Unit",
    [
      ["steps", "steps"],
      ["seconds", "seconds"],
    ],
    params.get("unit"),
    (value) => setParams({ unit: value === "steps" ? "" : value }),
  );
  const shapes = check("Shapes", false, () => {});
  const stacks = check("Python stacks (slow)", false, () => {});
  const view = new TimelineView(signal, () => {});
  const run = async (): Promise<Child> => {
    fill(said, "Waiting for the end of a step…");
    const asked = { [unit.value()]: Number(amount.value) || 3, shapes: shapes.on(), stacks: stacks.on() };
    const { ops, gpu, problem } = await post("torch_profile", { target, ...asked }, signal);
    await load();
    return `${integer(ops)} operators, ${integer(gpu)} kernels and copies${problem ? `; ${problem}` : ""}`;
  };
  const title = "Switch torch's profiler on in the running job, and off again; the job pays for it meanwhile";
  const record = actionButton({ text: "Profile", right: "profile", kind: "primary", title, run }, (what) => fill(said, what));
  fill(root, card(null, h("div", { class: "toolbar" }, amount, unit.node, record, shapes.node, stacks.node, said)), place.node);

  async function load() {
    const options = { target, signal };
    const [ops, kernels, used, path, opEvents, gpuEvents] = await Promise.all([
      records<OpCost>(PROFILE_QUERIES.ops, options),
      records<KernelCost>(PROFILE_QUERIES.kernels, options),
      records<UtilizationRow>(PROFILE_QUERIES.used, options),
      records<PathRow>(PROFILE_QUERIES.path, options),
      records<OpRow>(PROFILE_QUERIES.opEvents, options),
      records<KernelRow>(PROFILE_QUERIES.gpuEvents, options),
    ]);
    if (ops.length === 0) return place.show(nothing(target));
    const groups = groupsOfProfile(opEvents, gpuEvents);
    const starts = groups.flatMap(({ tracks }) => tracks.flatMap(({ events }) => events));
    const from = starts.reduce((least, { start }) => Math.min(least, start), Infinity);
    const to = starts.reduce((most, { start, ms }) => Math.max(most, start + ms), 0);
    const timeline = card("Over time", view.node);
    place.show(
      h(
        "div",
        { class: "page" },
        used.length > 0 ? usedCard(used) : null,
        h(
          "div",
          { class: "cards wide" },
          card(
            "Operators by their own time on the CPU",
            bars(
              ops.slice(0, 12).map(({ op, self_us: value }) => ({ label: op, value })),
              us,
            ),
          ),
          kernels.length > 0
            ? card(
                "Kernels",
                bars(
                  kernels.slice(0, 12).map(({ name, total_us: value }) => ({ label: name, value })),
                  us,
                ),
              )
            : null,
          path.length > 0
            ? card(
                "What held up the steps",
                bars(
                  path.map(({ place: where, name, path_us: value }) => ({ label: `${where}: ${name}`, value })),
                  us,
                ),
              )
            : null,
        ),
        timeline,
        opTable(ops),
        kernels.length > 0 ? kernelTable(kernels) : null,
      ),
    );
    view.set(groups, from, to);
    view.setWindow(null);
  }

  load().catch((error) => !signal.aborted && place.fail(error));
}

function nothing(target: number) {
  return empty(
    "This process has not been profiled",
    "Profile switches torch's profiler on for some steps of the running job, and off again. A trace of torch.profiler can be read, too:",
    [`probing -t ${target} profile --steps 3`, "probing -t trace.json.gz profile"],
  );
}

function usedCard(rows: UtilizationRow[]) {
  return h(
    "div",
    { class: "cards" },
    rows.map(({ device, busy_us: busy, idle_share: idle, exposed_share: exposed, copy_us: copies }) =>
      card(
        `Device ${device}`,
        h(
          "dl",
          { class: "facts" },
          fact("Busy", us(busy)),
          fact("Idle", share(idle)),
          fact("Only communicating", share(exposed)),
          fact("Copies", us(copies)),
        ),
      ),
    ),
  );
}

function opTable(rows: OpCost[]) {
  const columns: PlainColumn[] = [["Operator", "mono"], ["Calls", "number"], ["Own", "number"], ["In all", "number"], ["Mean", "number"], ["On the device", "number"]];
  return card(
    "Operators",
    plainTable(
      columns,
      rows.map(({ op, calls, self_us: self, total_us: total, mean_us: mean, gpu_us: gpu }) => [op, integer(calls), us(self), us(total), us(mean), us(gpu)]),
      "ops",
    ),
  );
}

function kernelTable(rows: KernelCost[]) {
  const columns: PlainColumn[] = [["Kernel", "mono"], ["Operator", "mono"], ["Calls", "number"], ["In all", "number"], ["Mean", "number"], ["Of all", "number"]];
  return card(
    "Kernels",
    plainTable(
      columns,
      rows.map(({ name, op, calls, total_us: total, mean_us: mean, share: part }) => [name, op ?? "–", integer(calls), us(total), us(mean), share(part)]),
      "kernels",
    ),
  );
}
