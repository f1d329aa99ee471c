// Tables and columns as probingd declares them, asked for once.
import { records } from "./api";
import type { ColumnRow, Schema, TableRow } from "../types/tables";

let promise: Promise<Schema> | null = null;

// by names of tables
export function loadSchema(): Promise<Schema> {
  promise ??= read().catch((error) => {
    promise = null; // the next one may try again
    throw error;
  });
  return promise;
}

// Tables that targets make themselves come and go.
export function forgetSchema() {
  promise = null;
}

function sentence(text: string | null) {
  return text ? `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}` : "";
}

async function read(): Promise<Schema> {
  const [tables, columns] = await Promise.all([
    records<TableRow>("SELECT table_name, kind, origin, doc FROM probing.tables ORDER BY table_name"),
    records<ColumnRow>(
      "SELECT table_name, column_name, type, unit, doc FROM probing.columns ORDER BY table_name, position",
    ),
  ]);
  const schema: Schema = new Map();
  for (const { table_name: name, kind, origin, doc } of tables) {
    schema.set(name, { doc: sentence(doc), kind, origin, columns: [] });
  }
  for (const { table_name: table, column_name: name, type, unit, doc } of columns) {
    schema.get(table)?.columns.push({ name, type, unit, doc });
  }
  return schema;
}
