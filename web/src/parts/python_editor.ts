// The line of a prompt: Enter runs it, Tab completes it in the process, arrows bring back what was run before.
import { acceptCompletion, completionStatus, startCompletion } from "@codemirror/autocomplete";
import type { CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { insertNewlineAndIndent } from "@codemirror/commands";
import { pythonLanguage } from "@codemirror/lang-python";
import type { EditorView } from "@codemirror/view";
import { withCompletion } from "../lib/repl";
import type { Completion } from "../types/page";
import { Editor } from "./editor";

interface PromptOptions {
  run: () => void;
  interrupt: () => boolean; // false when nothing runs
  clear: () => void;
  complete: (text: string) => Promise<Completion | null>; // null when it could not be had
  past: readonly string[]; // the latest last; may grow
  signal: AbortSignal;
}

export class PythonPrompt {
  readonly editor: Editor;
  private list: { at: number; result: CompletionResult } | null = null;
  private step = 0; // back into the past
  private draft = "";

  constructor(private readonly options: PromptOptions) {
    this.editor = new Editor({
      label: "Python code",
      hint: "Enter runs it, Tab completes, Ctrl+C interrupts, %magics lists helpers",
      minHeight: "4rem",
      signal: options.signal,
      language: pythonLanguage.extension,
      indent: "    ",
      asYouType: false, // every question is one to the process
      source: ({ pos }: CompletionContext) => (this.list?.at === pos ? this.list.result : null),
      keys: [
        { key: "Enter", run: (view) => !isChoosing(view) && this.run() },
        { key: "Tab", run: (view) => acceptCompletion(view) || this.complete(view) },
        { key: "Ctrl-c", run: (view) => view.state.selection.main.empty && options.interrupt() },
        { key: "Ctrl-l", run: () => (options.clear(), true) },
        { key: "ArrowUp", run: (view) => !isChoosing(view) && this.recall(view, 1) },
        { key: "ArrowDown", run: (view) => !isChoosing(view) && this.recall(view, -1) },
      ],
    });
  }

  private run() {
    this.step = 0;
    this.options.run();
    return true;
  }

  // A block goes on: what was typed meanwhile stays below it.
  goOn(code: string) {
    const typed = this.editor.value;
    this.editor.value = typed ? `${code}\n${typed}` : code;
    if (!typed) insertNewlineAndIndent(this.editor.view);
  }

  // As much as all candidates have in common; where they differ, they are listed.
  private complete(view: EditorView) {
    const { head } = view.state.selection.main;
    const before = view.state.sliceDoc(0, head);
    if (
      !view.state.doc
        .lineAt(head)
        .text.slice(0, head - view.state.doc.lineAt(head).from)
        .trim()
    )
      return false;
    void this.options.complete(before).then((found) => {
      if (!found || view.state.sliceDoc(0, view.state.selection.main.head) !== before) return; // typed on
      const text = withCompletion(before, found);
      view.dispatch({ changes: { from: 0, to: head, insert: text }, selection: { anchor: text.length } });
      if (found.candidates.length < 2) return;
      const options = found.candidates.map((label) => ({ label }));
      const from = before.length - found.count;
      this.list = { at: text.length, result: { from, options, validFor: /^\w*$/ } };
      startCompletion(view);
    });
    return true;
  }

  // From the first line upwards, from the last one downwards; between them the arrows move the caret.
  private recall(view: EditorView, by: 1 | -1) {
    const { doc, selection } = view.state;
    const edge = by > 0 ? 1 : doc.lines;
    const next = this.step + by;
    const { past } = this.options;
    if (doc.lineAt(selection.main.head).number !== edge || next < 0 || next > past.length) return false;
    if (this.step === 0) this.draft = this.editor.value;
    this.step = next;
    this.editor.value = next === 0 ? this.draft : past[past.length - next];
    return true;
  }
}

function isChoosing(view: EditorView) {
  return completionStatus(view.state) === "active";
}
