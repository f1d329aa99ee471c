// Torch's GPU allocator, block by block: what is asked, and where blocks lie on a map. Pure.
import type { BlockRow, MapPiece } from "../types/gpu_blocks";

const NEWEST = "snapshot = (SELECT max(snapshot) FROM gpu.memory_blocks)";
const MOST_BLOCKS = 50_000;
const MOST_HOLDERS = 50;

// Devices and holders are asked for as `probing memory --gpu` does (src/cli/gpu_memory.cc).
export const BLOCK_QUERIES = {
  taken: `SELECT max(timestamp) AS taken FROM gpu.memory_blocks WHERE ${NEWEST}`,
  devices: `SELECT device, count(DISTINCT segment) AS segments,
      coalesce(sum(bytes) FILTER (WHERE state <> 'failed'), 0)::BIGINT AS reserved,
      coalesce(sum(bytes) FILTER (WHERE state = 'allocated'), 0)::BIGINT AS allocated,
      coalesce(sum(bytes - requested_bytes) FILTER (WHERE state = 'allocated'), 0)::BIGINT AS rounding,
      coalesce(sum(bytes) FILTER (WHERE state = 'pending_free'), 0)::BIGINT AS pending_free,
      coalesce(sum(bytes) FILTER (WHERE state = 'free'), 0)::BIGINT AS free,
      coalesce(max(bytes) FILTER (WHERE state = 'free'), 0) AS largest_free
    FROM gpu.memory_blocks WHERE ${NEWEST} GROUP BY device ORDER BY device`,
  holders: `SELECT device, count(*) AS blocks, sum(bytes)::BIGINT AS bytes, func, file, lineno, stack, max(age_s) AS oldest_s
    FROM gpu.memory_blocks WHERE state IN ('allocated', 'pending_free') AND ${NEWEST}
    GROUP BY device, func, file, lineno, stack ORDER BY bytes DESC LIMIT ${MOST_HOLDERS}`,
  blocks: `SELECT device, segment, bytes, state, func, file, lineno, age_s
    FROM gpu.memory_blocks WHERE state <> 'failed' AND ${NEWEST} ORDER BY device, segment, address LIMIT ${MOST_BLOCKS}`,
};

// All blocks of a device as one line of bytes that is broken into so many rows.
export function piecesOf(blocks: BlockRow[], rows: number): MapPiece[] {
  const total = blocks.reduce((sum, { bytes }) => sum + bytes, 0);
  const rowBytes = total / Math.max(rows, 1);
  if (!(rowBytes > 0)) return [];
  const pieces: MapPiece[] = [];
  let at = 0;
  for (const block of blocks) {
    const end = at + block.bytes;
    for (let row = Math.floor(at / rowBytes); row < rows && row * rowBytes < end; row += 1) {
      const from = Math.max(at, row * rowBytes);
      const to = Math.min(end, (row + 1) * rowBytes);
      if (to > from) pieces.push({ row, x: (from - row * rowBytes) / rowBytes, w: (to - from) / rowBytes, block });
    }
    at = end;
  }
  return pieces;
}
