// Tables and columns as probingd declares them, asked for once.
import { records } from "./api.js";

let promise = null;

// Map of table name → {doc, kind, origin, columns: [{name, type, unit, doc}]}.
export function loadSchema() {
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

function sentence(text) {
  return text ? `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}` : "";
}

async function read() {
  const [tables, columns] = await Promise.all([
    records("SELECT table_name, kind, origin, doc FROM probing.tables ORDER BY table_name"),
    records(
      "SELECT table_name, column_name, type, unit, doc FROM probing.columns ORDER BY table_name, position",
    ),
  ]);
  const schema = new Map();
  for (const { table_name: name, kind, origin, doc } of tables) {
    schema.set(name, { doc: sentence(doc), kind, origin, columns: [] });
  }
  for (const { table_name: table, column_name: name, type, unit, doc } of columns) {
    schema.get(table)?.columns.push({ name, type, unit, doc });
  }
  return schema;
}
