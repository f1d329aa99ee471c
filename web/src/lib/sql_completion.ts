// What could come next in a query: tables after FROM, columns of the tables that it names, and what SQL has.
// CodeMirror reads the SQL, chooses those that fit what is typed, and shows them. Pure; needs no browser.
import type { Completion } from "@codemirror/autocomplete";
import { SQLDialect } from "@codemirror/lang-sql";
import type { Schema } from "../types/tables";

const KEYWORDS = (
  "SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT OFFSET JOIN LEFT RIGHT FULL INNER OUTER CROSS ASOF POSITIONAL LATERAL ON USING " +
  "AS AND OR NOT IN IS NULL LIKE ILIKE BETWEEN CASE WHEN THEN ELSE END DISTINCT UNION ALL EXCEPT INTERSECT WITH RECURSIVE OVER " +
  "PARTITION ROWS RANGE ASC DESC NULLS INTERVAL TRUE FALSE EXISTS QUALIFY EXPLAIN ANALYZE DESCRIBE SUMMARIZE SHOW TABLES CAST " +
  "FILTER VALUES PIVOT UNPIVOT EXCLUDE SAMPLE"
).split(" ");

const FUNCTIONS = (
  "count sum avg min max median quantile_cont stddev first last arg_max arg_min now date_trunc time_bucket epoch_ms " +
  "row_number lag lead coalesce round abs lower upper length substr regexp_matches split_part string_agg list unnest range"
).split(" ");

const TYPES = "bigint integer double varchar text boolean date time timestamp timestamptz json hugeint";

// Only what is reserved: `rank` and `name` are columns here.
export const DuckDb = SQLDialect.define({
  keywords: KEYWORDS.join(" ").toLowerCase(),
  builtin: FUNCTIONS.join(" "),
  types: TYPES,
  doubleDollarQuotedStrings: true,
  operatorChars: "+-*/<>=~!@%^&|`?",
});

const TABLE_FOLLOWS = new Set(["from", "join", "describe", "summarize"]);
const NAMES = new Set(["Identifier", "QuotedIdentifier", "CompositeIdentifier"]);
const SILENT = new Set(["String", "LineComment", "BlockComment"]);

interface Scan {
  tables: Map<string, string>; // alias or name → table
  expectsTable: boolean; // at the end
}

function withoutHosts(name: string) {
  return name.toLowerCase().replace(/^global\./, "");
}

// Tables after FROM and JOIN with their aliases, and whether another would come next.
export function scan(sql: string): Scan {
  const tables = new Map<string, string>();
  let expectsTable = false;
  let isList = false; // of tables, which commas go on with
  let named: string | null = null; // the last table: its alias may follow
  DuckDb.language.parser.parse(sql).iterate({
    enter({ name: kind, from, to }) {
      const text = sql.slice(from, to).toLowerCase();
      if (kind === "Keyword" && text !== "as") {
        isList = expectsTable = TABLE_FOLLOWS.has(text);
        named = null;
      } else if (text === ",") {
        expectsTable = isList;
        named = null;
      } else if (NAMES.has(kind)) {
        if (expectsTable) tables.set((named = withoutHosts(text)), named);
        else if (named !== null) tables.set(text, named);
        if (!expectsTable) named = null;
        expectsTable = false;
        return false; // the parts of a.b are no names of their own
      }
      return true;
    },
  });
  return { tables, expectsTable };
}

// Where the word at the caret begins, and what it could become.
export function completionsAt(
  sql: string,
  caret: number,
  schema: Schema,
): { from: number; options: Completion[] } {
  const inside = DuckDb.language.parser.parse(sql).resolveInner(caret, -1);
  if (SILENT.has(inside.name)) return { from: caret, options: [] };
  const word = /[\w.]*$/.exec(sql.slice(0, caret))?.[0] ?? "";
  const from = caret - word.length;
  if (scan(sql.slice(0, from)).expectsTable) return { from, options: tableOptions(schema, word) };
  const { tables } = scan(sql);
  const dot = word.lastIndexOf(".");
  const owner = tables.get(withoutHosts(word.slice(0, Math.max(dot, 0))));
  if (dot > 0 && owner) return { from: from + dot + 1, options: columnOptions(schema, [owner]) };
  if (dot > 0) return { from, options: tableOptions(schema, word) };
  return {
    from,
    options: [...columnOptions(schema, tables.values()), ...words(), ...tableOptions(schema, word)],
  };
}

function words(): Completion[] {
  const functions = FUNCTIONS.map((label) => ({ label, type: "function", boost: 0 }));
  return [...functions, ...KEYWORDS.map((label) => ({ label, type: "keyword", boost: -1 }))];
}

function tableOptions(schema: Schema, word: string): Completion[] {
  const prefix = word.toLowerCase().startsWith("global.") ? "global." : "";
  return [...schema].map(([name, { doc, kind }]) => ({
    label: prefix + name,
    type: "table",
    detail: kind,
    info: doc,
    boost: -2,
  }));
}

function columnOptions(schema: Schema, tables: Iterable<string>): Completion[] {
  const columns = [...new Set(tables)].flatMap((table) => schema.get(table)?.columns ?? []);
  const unique = new Map(columns.map((column) => [column.name, column]));
  return [...unique.values()].map(({ name, type, doc }) => ({
    label: name,
    type: "column",
    detail: type,
    info: doc,
    boost: 2,
  }));
}
