// Code that is typed: CodeMirror with the page's colours. It lives in a shadow tree, where its styles are
// sheets of the tree and no <style> elements, which the page's security policy forbids.
import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
} from "@codemirror/autocomplete";
import type { CompletionSource } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState, Prec } from "@codemirror/state";
import type { Extension } from "@codemirror/state";
import { EditorView, keymap, placeholder } from "@codemirror/view";
import type { KeyBinding } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { h } from "../lib/dom";

export interface EditorOptions {
  label: string; // for those who do not see it
  hint?: string; // where nothing is typed yet
  value?: string;
  minHeight: string;
  language: Extension;
  indent: string;
  source: CompletionSource;
  asYouType: boolean; // completes without being asked
  keys: readonly KeyBinding[]; // before all others
  signal: AbortSignal; // when the page goes
  changed?: (text: string) => void;
}

const COLOURS = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--accent)", fontWeight: "600" },
  { tag: [tags.operatorKeyword, tags.modifier], color: "var(--accent)", fontWeight: "600" },
  { tag: [tags.typeName, tags.standard(tags.name)], color: "var(--series-3)" },
  {
    tag: [tags.function(tags.variableName), tags.function(tags.definition(tags.variableName))],
    color: "var(--series-3)",
  },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--warn)" },
  { tag: tags.comment, color: "var(--quiet)", fontStyle: "italic" },
]);

const theme = (minHeight: string) =>
  EditorView.theme({
    "&": { color: "var(--text)", fontSize: "13px", minHeight },
    "&.cm-focused": { outline: "none" },
    ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "20px", minHeight },
    ".cm-content": { caretColor: "var(--text)", padding: ".5rem 0" },
    ".cm-line": { padding: "0 .9rem" },
    ".cm-placeholder": { color: "var(--quiet)" },
    ".cm-matchingBracket": { backgroundColor: "var(--accent-soft)", outline: "1px solid var(--line)" },
    ".cm-tooltip": {
      background: "var(--surface)",
      color: "var(--text)",
      border: "1px solid var(--line)",
      borderRadius: "8px",
      boxShadow: "0 8px 24px rgb(0 0 0 / .18)",
    },
    ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "15rem" },
    ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: ".15rem .6rem", lineHeight: "1.5" },
    ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": {
      background: "var(--accent-soft)",
      color: "var(--text)",
    },
    ".cm-completionMatchedText": { textDecoration: "none", color: "var(--accent)", fontWeight: "600" },
    ".cm-completionDetail": { color: "var(--quiet)", fontStyle: "normal", fontSize: ".92em" },
    ".cm-completionInfo": { padding: ".4rem .7rem", maxWidth: "22rem", fontFamily: "system-ui, sans-serif" },
  });

export class Editor {
  readonly node = h("div", { class: "editor" });
  readonly view: EditorView;

  constructor(options: EditorOptions) {
    const root = this.node.attachShadow({ mode: "open" });
    const state = EditorState.create({ doc: options.value ?? "", extensions: extensionsOf(options) });
    this.view = new EditorView({ state, root, parent: root });
    options.signal.addEventListener("abort", () => this.view.destroy());
  }

  get value() {
    return this.view.state.doc.toString();
  }

  // With the caret behind it.
  set value(text) {
    const all = { from: 0, to: this.view.state.doc.length };
    this.view.dispatch({ changes: { ...all, insert: text }, selection: { anchor: text.length } });
  }

  // What is selected, else all of it.
  get statement() {
    const { from, to } = this.view.state.selection.main;
    return (from < to ? this.view.state.sliceDoc(from, to) : this.value).trim();
  }

  // Where the caret is, instead of what is selected; a space before it where words would touch.
  insert(text: string) {
    const { from, to } = this.view.state.selection.main;
    const touches = /\w$/.test(this.view.state.sliceDoc(Math.max(0, from - 1), from));
    const whole = touches ? ` ${text}` : text;
    this.view.dispatch({ changes: { from, to, insert: whole }, selection: { anchor: from + whole.length } });
    this.focus();
  }

  focus() {
    this.view.focus();
  }
}

function extensionsOf(options: EditorOptions): Extension[] {
  const { label, hint, language, indent, source, asYouType, keys, changed } = options;
  return [
    Prec.highest(keymap.of(keys)),
    language,
    indentUnit.of(indent),
    history(),
    bracketMatching(),
    closeBrackets(),
    autocompletion({ override: [source], activateOnTyping: asYouType, icons: false }),
    syntaxHighlighting(COLOURS),
    keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap]),
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({
      "aria-label": label,
      autocapitalize: "off",
      spellcheck: "false",
      contenteditable: "plaintext-only", // else Chrome styles what is typed over coloured words, by an attribute
    }),
    EditorView.updateListener.of(({ docChanged, state }) => docChanged && changed?.(state.doc.toString())),
    hint ? placeholder(hint) : [],
    theme(options.minHeight),
  ];
}
