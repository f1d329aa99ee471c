// An editor for SQL: tables and columns of the live schema are completed while one types.
import { acceptCompletion } from "@codemirror/autocomplete";
import type { CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { DuckDb, completionsAt } from "../lib/sql_completion";
import type { Schema } from "../types/tables";
import { Editor } from "./editor";

interface SqlEditorOptions {
  value: string;
  schema: Schema; // a Map that may be filled later (lib/schema.ts)
  run: () => void; // by Ctrl+Enter
  changed: (text: string) => void;
  signal: AbortSignal;
}

export function sqlEditor({ value, schema, run, changed, signal }: SqlEditorOptions): Editor {
  const source = ({ state, pos, explicit }: CompletionContext): CompletionResult | null => {
    const text = state.doc.toString();
    if (!explicit && !/[\w.]$/.test(text.slice(0, pos))) return null;
    return { ...completionsAt(text, pos, schema), validFor: /^[\w.]*$/ };
  };
  const runs = () => {
    run();
    return true;
  };
  return new Editor({
    label: "SQL",
    value,
    changed,
    signal,
    minHeight: "8.5rem",
    indent: "  ",
    language: DuckDb.extension,
    source,
    asYouType: true,
    keys: [
      { key: "Mod-Enter", run: runs },
      { key: "Ctrl-Enter", run: runs },
      { key: "Tab", run: acceptCompletion }, // else it goes on to the next control
    ],
  });
}
