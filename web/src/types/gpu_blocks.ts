// Rows of gpu.memory_blocks: torch's allocator at one moment.
export type BlockState = "allocated" | "pending_free" | "free" | "failed";

export interface BlockRow {
  device: number;
  segment: number | bigint;
  bytes: number;
  state: BlockState;
  func: string | null;
  file: string | null;
  lineno: number | null;
  age_s: number | null;
}

export interface DeviceRow {
  device: number;
  segments: number;
  reserved: number;
  allocated: number;
  rounding: number; // of the allocated bytes, what nobody asked for
  pending_free: number;
  free: number;
  largest_free: number;
}

export interface HolderRow {
  device: number;
  blocks: number;
  bytes: number;
  func: string | null;
  file: string | null;
  lineno: number | null;
  stack: string | null;
  oldest_s: number | null;
}

// A part of a block within one row of the map; x and w are shares of the row.
export interface MapPiece {
  row: number;
  x: number;
  w: number;
  block: BlockRow;
}
