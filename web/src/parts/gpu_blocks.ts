// Who holds the memory of the GPUs: devices, a map of their blocks, and the lines that allocated them.
import "../style/stalls.css";
import { records } from "../lib/api";
import { groupBy } from "../lib/cells";
import { h } from "../lib/dom";
import { bytes, integer, seconds, shortFile } from "../lib/format";
import { BLOCK_QUERIES } from "../lib/gpu_blocks";
import { BlockMap } from "./block_map";
import { plainTable } from "./plain_table";
import { fact } from "./states";
import type { Child } from "../types/page";
import type { BlockRow, DeviceRow, HolderRow } from "../types/gpu_blocks";
import type { PlainColumn } from "../types/tables";

const COLUMNS: PlainColumn[] = [["Allocated by"], ["Bytes", "number"], ["Blocks", "number"], ["Oldest", "number"]];

// The newest snapshot; null when there is none. `taken` is when it was.
export async function readBlocks(
  target: number,
  signal: AbortSignal,
): Promise<{ taken: string; node: Child } | null> {
  const options = { target, signal };
  const [{ taken } = { taken: null }] = await records<{ taken: string | null }>(BLOCK_QUERIES.taken, options);
  if (!taken) return null;
  const [devices, holders, blocks] = await Promise.all([
    records<DeviceRow>(BLOCK_QUERIES.devices, options),
    records<HolderRow>(BLOCK_QUERIES.holders, options),
    records<BlockRow>(BLOCK_QUERIES.blocks, options),
  ]);
  const byDevice = groupBy(blocks, ({ device }) => device);
  const node = devices.map((device) =>
    h(
      "div",
      { class: "gpu-device" },
      h("h3", {}, `GPU ${device.device}`),
      deviceFacts(device),
      byDevice.has(device.device) ? new BlockMap(byDevice.get(device.device)!, signal).node : null,
      holderTable(holders.filter((one) => one.device === device.device)),
    ),
  );
  return { taken, node };
}

function deviceFacts(row: DeviceRow): HTMLElement {
  return h(
    "dl",
    { class: "facts" },
    fact("Reserved", bytes(row.reserved)),
    fact("Segments", integer(row.segments)),
    fact("Allocated", bytes(row.allocated)),
    fact("Of it by rounding", bytes(row.rounding)),
    fact("Free", bytes(row.free)),
    fact("Largest free piece", bytes(row.largest_free)),
    row.pending_free > 0 ? fact("Used by another stream", bytes(row.pending_free)) : null,
  );
}

function holderTable(rows: HolderRow[]): Child {
  return plainTable(
    COLUMNS,
    rows.map(({ func, file, lineno, stack, bytes: size, blocks, oldest_s: oldest }) => [
      func
        ? h(
            "details",
            {},
            h("summary", { class: "mono" }, `${func} (${shortFile(file ?? "?")}:${lineno ?? "?"})`),
            h("ol", { class: "stack-lines" }, (stack ?? "").split(";").map((frame) => h("li", { class: "mono" }, frame))),
          )
        : "allocated while torch recorded no history",
      bytes(size),
      integer(blocks),
      oldest === null ? "–" : seconds(oldest),
    ]),
    "holders",
  );
}
