// Rows of the memory page.
export interface CensusRow {
  type: string | null;
  shape: string | null;
  dtype: string | null;
  device: string | null;
  count: number;
  bytes: number;
}

export interface LeakRow extends CensusRow {
  grown: number;
  grown_bytes: number | null;
  made_by: string | null;
  holder: string | null;
  module: string | null;
  since: string | null;
  steps: number | null;
}
