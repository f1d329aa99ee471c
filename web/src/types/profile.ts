// Rows of a profile by torch's profiler.
export interface OpCost {
  op: string;
  calls: number;
  self_us: number;
  total_us: number;
  mean_us: number;
  gpu_us: number | null;
}

export interface KernelCost {
  name: string;
  op: string | null;
  calls: number;
  total_us: number;
  mean_us: number;
  share: number | null;
}

export interface UtilizationRow {
  device: number;
  busy_us: number;
  idle_share: number;
  exposed_share: number;
  copy_us: number;
}

export interface PathRow {
  place: string;
  name: string;
  path_us: number;
}

interface Timed {
  name: string;
  timestamp_ns: number | bigint;
  duration_us: number;
}

export interface OpRow extends Timed {
  kind: string;
  thread: number;
  thread_name: string | null;
  detail: string | null;
}

export interface KernelRow extends Timed {
  kind: string;
  device: number;
  stream: number;
  op: string | null;
}
