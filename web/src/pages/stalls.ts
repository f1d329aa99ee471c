// What took too long while nobody was attached: when, where, and what the thread did before and during it.
import "../style/stalls.css";
import { get, post, toRecords } from "../lib/api";
import { fill, h } from "../lib/dom";
import { clock, count, integer, seconds } from "../lib/format";
import { within } from "../lib/range";
import { byLine, MOST, partsOf, placeOf, stallsSql } from "../lib/stalls";
import { link } from "../lib/state";
import { followQueries } from "../lib/stream";
import { actionButton } from "../parts/actions";
import { Kept } from "../parts/job_cards";
import { plainTable } from "../parts/plain_table";
import { card, empty, Place } from "../parts/states";
import type { StallRow } from "../types/stalls";
import type { Child, PageContext } from "../types/page";
import type { PlainColumn } from "../types/tables";

const EVERY_S = 2;
const LIMIT = "probing.stalls.limit";
const USUAL_LIMIT_S = 0.05;
const AROUND_S = 2; // of the timeline and of samples, before and after a stall
const SHOWN = 100;
const MOST_LINES = 8;

const WHAT: Record<string, string> = {
  event_loop: "The event loop did not turn",
  gil: "The GIL was kept while others waited for it",
  cpu_wait: "The thread could run and had no CPU",
  step: "A step took far longer than the others",
  span: "A span took longer than its limit",
  event: "An event",
  exception: "An exception",
  metric: "A metric crossed its bound",
};
const LINES: PlainColumn[] = [
  ["Line", "mono"],
  ["Kind"],
  ["Stalls", "number"],
  ["In all", "number"],
  ["Longest", "number"],
];

export function mount({ root, target, job, range, signal }: PageContext) {
  const place = new Place();
  const lines = new Kept(h("div", {}));
  const list = new Kept(h("div", { class: "stalls" }));
  const said = h("div", { class: "quiet-text", role: "status" });
  const body = h("div", { class: "page" }, said, lines.node, list.node);
  const opened = new Set<string>();
  fill(root, place.node);

  const draw = async (rows: StallRow[]) => {
    if (rows.length === 0) return place.show(await nothing(signal));
    const lost = rows.reduce((sum, { left_out: lost }) => sum + (lost ?? 0), 0);
    const cut = rows.length === MOST ? `the last ${count(MOST, "stall")}` : count(rows.length, "stall");
    fill(said, `${cut}${lost > 0 ? `; ${integer(lost)} more were left out, there were too many` : ""}`);
    lines.fill(rows, () => lineCard(rows));
    list.fill(rows, () => rows.slice(0, SHOWN).map((row) => stall(row, opened)));
    place.show(body);
  };
  followQueries(() => ({ stalls: stallsSql(within(range, job)) }), {
    target,
    seconds: EVERY_S,
    signal,
    heard: ({ stalls }) => void draw(toRecords<StallRow>(stalls)).catch((error) => place.fail(error)),
    failed: (error) => place.fail(error),
  });
}

// Whether there was none, or nobody looked, is not the same.
async function nothing(signal: AbortSignal): Promise<HTMLElement> {
  const { settings } = await get("config", signal);
  const limit = Number(settings.find(({ name }) => name === LIMIT)?.value ?? 0);
  if (limit > 0)
    return empty(
      "Nothing stalled in this time",
      `No event loop stood still and no thread kept the GIL for ${seconds(limit)}, and no step or span took far longer than it should.`,
    );
  const said = h("p", { class: "quiet-text", role: "status" });
  const title = "From now on probingd looks at every probed process, from outside";
  const run = async (): Promise<Child> => {
    await post("config", { set: { [LIMIT]: USUAL_LIMIT_S } });
    return `Stalls of ${seconds(USUAL_LIMIT_S)} and longer are kept from now on.`;
  };
  const node = empty(
    "Stalls are not watched for",
    "probingd can look at every probed process all the time, from outside, and keep what its threads did when something took too long: an event loop that does not turn, a GIL that is kept, a step or a span that is slow.",
    [`probing config ${LIMIT}=${USUAL_LIMIT_S}`],
  );
  node.append(
    actionButton({ text: "Watch for stalls", right: "eval", kind: "primary", title, run }, (what) => fill(said, what)),
    said,
  );
  return node;
}

function lineCard(rows: StallRow[]): HTMLElement {
  const lines = byLine(rows);
  const more = lines.length - MOST_LINES;
  return card(
    "The lines that took the time",
    plainTable(
      LINES,
      lines
        .slice(0, MOST_LINES)
        .map(({ place, kinds, count: many, total, longest }) => [
          h("span", { title: longest.file ?? "" }, place),
          h(
            "span",
            {},
            kinds.flatMap((kind) => [h("span", { class: "badge", title: WHAT[kind] ?? "" }, kind.replaceAll("_", " ")), " "]),
          ),
          integer(many),
          seconds(total),
          seconds(longest.duration),
        ]),
      "stall-lines",
    ),
    more > 0 ? h("p", { class: "quiet-text" }, `and ${count(more, "line")} more`) : null,
  );
}

function stall(row: StallRow, opened: Set<string>): HTMLElement {
  const key = `${row.pid} ${row.tid} ${row.timestamp_ns}`;
  const at = Number(row.timestamp_ns) / 1e6;
  const content = h("div", {});
  const show = (isOpen: boolean) => isOpen && !content.firstChild && fill(content, details(row));
  const node = h(
    "details",
    {
      class: "stall",
      open: opened.has(key),
      ontoggle: () => {
        opened[node.open ? "add" : "delete"](key);
        show(node.open);
      },
    },
    h(
      "summary",
      {},
      h("time", { class: "quiet-text" }, clock(at)),
      h("strong", { class: "number" }, row.duration > 0 ? seconds(row.duration) : "–"),
      h("span", { class: `badge ${row.kind === "cpu_wait" ? "" : "warn"}` }, row.kind.replaceAll("_", " ")),
      h("code", {}, placeOf(row)),
      row.rank === null ? null : h("span", { class: "quiet-text" }, `rank ${row.rank}`),
      h("span", { class: "quiet-text why" }, row.why ?? ""),
    ),
    content,
  );
  show(opened.has(key));
  return node;
}

function details(row: StallRow): Child {
  const start = Number(row.timestamp_ns) / 1e6;
  const around = {
    target: row.pid,
    from: Math.round(start - 1000 * AROUND_S),
    to: Math.round(start + 1000 * (row.duration + AROUND_S)),
  };
  const parts = partsOf(row);
  const facts = [
    WHAT[row.kind] ?? row.kind,
    `pid ${row.pid}, thread ${row.thread_name || "without a name"} (${row.tid})`,
    row.waiting_threads ? `${count(row.waiting_threads, "thread")} waited for the GIL because of it` : "",
    row.cpu_wait ? `${seconds(row.cpu_wait)} of it without a CPU` : "",
    row.ended ? "" : "it still went on when this was written",
  ].filter(Boolean);
  return [
    h("p", {}, `${facts.join("; ")}.`),
    h(
      "div",
      { class: "toolbar" },
      h(
        "a",
        { class: "button", href: link("flame", { ...around, stall: String(row.timestamp_ns) }) },
        "Flame graph of the stall",
      ),
      h("a", { class: "button", href: link("flame", around) }, "Flame graph of this time"),
      h("a", { class: "button", href: link("timeline", around) }, "Timeline of this time"),
      h("a", { class: "button", href: link("stacks", { target: row.pid }) }, "Stacks now"),
    ),
    h(
      "div",
      { class: "cards wide" },
      stackCard("During it, most of the time", row.stack, row),
      stackCard("Just before it", row.before, null),
    ),
    parts.length > 1
      ? h(
          "details",
          {},
          h("summary", {}, `All ${parts.length} stacks in order`),
          plainTable(
            [["From", "number"], ["For", "number"], ["Stack", "mono"]],
            parts.map(({ at, seconds: took, stack }) => [
              `${at < 0 ? "−" : "+"}${seconds(Math.abs(at))}`,
              seconds(took),
              stack.split(";").slice(-3).join(" › "),
            ]),
            "parts",
          ),
        )
      : null,
  ];
}

// The line that took the time stands out.
function stackCard(title: string, stack: string | null, blamed: StallRow | null): HTMLElement {
  const frames = (stack ?? "").split(";").filter(Boolean);
  const place = blamed?.func ? placeOf(blamed) : null;
  return h(
    "section",
    {},
    h("h3", {}, title),
    frames.length === 0
      ? h("p", { class: "quiet-text" }, "No stack could be read.")
      : h(
          "ol",
          { class: "stack-lines" },
          frames.map((frame) => h("li", { class: frame === place ? "mono blamed" : "mono" }, frame)),
        ),
  );
}
