// What takes the memory: over time, what there is more and more of, and tensors by kind.
import { asFailure, post, records } from "../lib/api";
import { fill, h } from "../lib/dom";
import { bytes, clock, integer, parseTime, span } from "../lib/format";
import { within } from "../lib/range";
import { actionButton } from "../parts/actions";
import { readBlocks } from "../parts/gpu_blocks";
import { plainTable } from "../parts/plain_table";
import { SeriesBoard } from "../parts/series";
import { empty, failure, Place } from "../parts/states";
import type { Right } from "../types/api";
import type { Child, PageContext } from "../types/page";
import type { PlainColumn, SeriesSpec } from "../types/tables";
import type { CensusRow, LeakRow } from "../types/memory";

const SERIES: SeriesSpec[] = [
  {
    title: "Memory of the process",
    unit: "bytes",
    sql: "SELECT timestamp, rss, children_rss, cgroup_limit FROM system.memory WHERE {since} ORDER BY 1",
    names: { rss: "resident", children_rss: "its children", cgroup_limit: "limit" },
  },
  {
    title: "Python: objects the collector tracks",
    sql: "SELECT timestamp, gc_objects AS objects FROM python.memory WHERE {since} ORDER BY 1",
  },
  {
    title: "Tensors",
    unit: "bytes",
    sql: "SELECT timestamp, tensor_bytes AS tensors FROM python.memory WHERE {since} ORDER BY 1",
  },
  {
    title: "GPU memory of PyTorch",
    unit: "bytes",
    sql: "SELECT timestamp, gpu_allocated AS in_tensors, gpu_reserved AS kept FROM python.memory WHERE {since} ORDER BY 1",
    names: { in_tensors: "in tensors", kept: "kept by the allocator" },
  },
];

const LEAKS = `SELECT type, shape, dtype, device, count, bytes, grown, grown_bytes, made_by, holder, module, since, steps
  FROM python.leaks ORDER BY grown_bytes DESC NULLS LAST, grown DESC LIMIT 50`;
const CENSUS = `SELECT coalesce(type, 'others') AS type, shape, dtype, device, count, bytes
  FROM python.tensor_census WHERE step = (SELECT max(step) FROM python.tensor_census)
  ORDER BY bytes DESC LIMIT 50`;
const NOW = `SELECT 'Tensor' AS type, shape, dtype, device, count(*) AS count, sum(bytes) AS bytes
  FROM python.tensors GROUP BY ALL ORDER BY bytes DESC LIMIT 50`;

const LEAK_COLUMNS: PlainColumn[] = [
  ["What", "mono"],
  ["Grown", "number"],
  ["By", "number"],
  ["Now", "number"],
  ["Memory", "number"],
  ["Since"],
  ["Held by", "mono"],
];
const KIND_COLUMNS: PlainColumn[] = [
  ["Kind", "mono"],
  ["Device"],
  ["Count", "number"],
  ["Memory", "number"],
];

const BLOCK_SECONDS = 3;

const kindOf = ({ type, shape, dtype }: CensusRow) => [type, shape, dtype].filter(Boolean).join(" ");

export function mount({ root, target, range, signal }: PageContext<number>) {
  const place = new Place();
  const board = new SeriesBoard(SERIES, signal);
  const options = { target, signal };
  const leaks = asked("What there is more and more of", "Look for leaks", leakText, async () =>
    leakTable(await records<LeakRow>(LEAKS, options)),
  );
  const census = asked("Tensors that are alive", "Count tensors", "Each kind of tensor with the memory it takes: from the last census, else counted now in the running job.", async () => {
    const counted = await records<CensusRow>(CENSUS, options);
    return kindTable(counted.length > 0 ? counted : await records<CensusRow>(NOW, options));
  });
  const gpu = gpuBlocks(target, signal);
  place.show(h("div", { class: "page" }, board.node, h("div", { class: "cards wide" }, leaks, census), gpu));
  fill(root, place.node);
  board.follow({ target, when: within(range), place });
}

const leakText =
  "Each question is a count of objects in the running job, and takes some milliseconds of it. Ask twice with some time between: what has grown is listed with what holds it.";

const blockText =
  "Torch's GPU allocator, block by block: who allocated what, and what lies free in pieces. Its history is recorded for some seconds, so that blocks which come in that time have their stacks; the job goes on.";

// What was read last is there on arrival: the snapshot is kept.
function gpuBlocks(target: number, signal: AbortSignal): HTMLElement {
  const last = h("div", {});
  const node = asked("GPU memory by who allocated it", "Read GPU blocks", blockText, async () => {
    const { problem } = await post("gpu_memory", { target, seconds: BLOCK_SECONDS }, signal);
    const read = await readBlocks(target, signal);
    return [problem ? h("p", { class: "quiet-text" }, problem) : null, read?.node ?? noBlocks()];
  }, "profile", last);
  const show = async () => {
    const read = await readBlocks(target, signal);
    if (read) fill(last, h("p", { class: "quiet-text" }, `As of ${clock(parseTime(read.taken))}.`), read.node);
  };
  show().catch(() => {}); // the button will say why
  return node;
}

function noBlocks() {
  return empty("Torch's allocator has no memory of a GPU", "It has not been used in this process.");
}

// What costs the job something is read when somebody asks for it.
function asked(
  title: string,
  text: string,
  why: string,
  read: () => Promise<Child>,
  right: Right = "read",
  result: HTMLElement = h("div", {}),
): HTMLElement {
  const said = h("p", { class: "quiet-text", role: "status" }, why);
  const button = actionButton(
    {
      text,
      right,
      title: why,
      run: async () => {
        try {
          fill(result, await read());
          return `As of ${new Date().toLocaleTimeString("en-GB")}.`;
        } catch (error) {
          fill(result, failure(asFailure(error)));
          return "";
        }
      },
    },
    (what) => fill(said, what),
  );
  return h("section", { class: "card asked" }, h("div", { class: "toolbar" }, h("h2", {}, title), h("span", { class: "grow" }), button), said, result);
}

function leakTable(rows: LeakRow[]): Child {
  if (rows.length === 0)
    return empty("Nothing grows so far", "This was the first count, or nothing has grown since. Ask again in a while.");
  return plainTable(
    LEAK_COLUMNS,
    rows.map(({ grown, grown_bytes: more, count, bytes: size, since, holder, made_by: made, module, ...kind }) => [
      kindOf({ ...kind, count, bytes: size }),
      `+${integer(grown)}`,
      more ? `+${bytes(more)}` : "–",
      integer(count),
      size ? bytes(size) : "–",
      since ? span((Date.now() - parseTime(since)) / 1000) : "–",
      [holder, made && `made by ${made}`, module && `in ${module}`].filter(Boolean).join("; ") || "–",
    ]),
    "leaks",
  );
}

function kindTable(rows: CensusRow[]): Child {
  if (rows.length === 0) return empty("No tensor", "The process has none, or PyTorch is not loaded.");
  return plainTable(
    KIND_COLUMNS,
    rows.map((row) => [kindOf(row), row.device ?? "–", integer(row.count), bytes(row.bytes)]),
    "census",
  );
}
