// Results of queries: as lines, as tables; and what can be asked.
import type { Column } from "./api";

export interface Line {
  label: string;
  values: (number | null)[];
  dashed?: boolean; // of another run or another time
}

export interface Lines {
  xs: number[];
  series: Line[];
}

export interface ColumnAt extends Column {
  i: number;
}

export interface LineChart {
  kind: "lines";
  x: ColumnAt;
  ys: ColumnAt[];
  isTime: boolean;
  split: ColumnAt | null;
}

export interface BarChart {
  kind: "bars";
  label: ColumnAt;
  ys: ColumnAt[];
}

export interface ChartOptions {
  title?: string;
  unit?: string; // as columns are declared with: s, ms, bytes, %
  height?: number;
  stacked?: boolean;
  time?: boolean;
  min?: number;
  max?: number;
  band?: boolean; // between the first and the third line
  about?: (i: number) => string; // the point under the cursor, instead of its x
  brushed?: (from: number, to: number) => void; // instead of a zoom
}

export interface SeriesSpec extends Pick<ChartOptions, "title" | "min" | "max" | "stacked" | "height"> {
  sql: string;
  unit?: string;
  names?: Record<string, string>; // of columns, as people say them
}

// A heading, and the class of the cells below it.
export type PlainColumn = readonly [name: string, kind?: string];

export interface Table {
  doc: string;
  kind: string;
  origin: string;
  columns: (Column & { unit: string; doc: string })[];
}

export type Schema = Map<string, Table>; // by name

export interface TableRow extends Omit<Table, "columns"> {
  table_name: string;
}

export interface ColumnRow {
  table_name: string;
  column_name: string;
  type: string;
  unit: string;
  doc: string;
}

export interface Asked {
  sql: string;
  pinned: boolean;
  title?: string; // of an example
}
