// What a page shows when it has nothing to show: that it waits, that something failed, or how to get data.
import { copy, fill, h } from "../lib/dom";
import type { Child, Failure } from "../types/page";

export function loading(text = "Loading…") {
  return h("div", { class: "state loading", role: "status" }, h("span", { class: "spinner" }), text);
}

// Commands stand in `backticks` in messages of the server too.
export function prose(text: string) {
  return String(text)
    .split("`")
    .map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

export function failure(error: Failure) {
  return h(
    "div",
    { class: "state failure", role: "alert" },
    h("strong", { class: "message" }, error.message),
    error.hint ? h("p", {}, prose(error.hint)) : null,
  );
}

// `commands` are lines to be copied into a shell.
export function empty(title: string, text: string, commands: string[] = []): HTMLElement {
  return h(
    "div",
    { class: "state empty" },
    h("strong", {}, title),
    h("p", {}, prose(text)),
    commands.map(command),
  );
}

export function command(text: string) {
  const button = h("button", { class: "small", type: "button", "aria-label": `copy ${text}` }, "Copy");
  button.addEventListener("click", async () => {
    button.textContent = (await copy(text)) ? "Copied" : "Select it";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  return h("div", { class: "command" }, h("code", {}, text), button);
}

/**
 * A place that shows one of several things. Content that is there stays while new data is loaded, and a
 * failure is shown above it: nothing jumps.
 */
export class Place {
  shown: Node | null = null;
  failed: string | null = null;

  notice: HTMLDivElement;
  body: HTMLDivElement;
  node: HTMLDivElement;

  constructor(first: Node = loading()) {
    this.notice = h("div", { class: "notice" });
    this.body = h("div", { class: "body" }, first);
    this.node = h("div", { class: "place" }, this.notice, this.body);
  }

  show(node: Node) {
    if (this.shown === node) return;
    this.shown = node;
    fill(this.body, node);
  }

  // The same text again and again is no news to a screen reader.
  fail(error: Failure | null) {
    if (error === null) {
      if (this.notice.firstChild) fill(this.notice);
      this.failed = null;
    } else if (this.failed !== error.message) {
      this.failed = error.message;
      fill(this.notice, failure(error));
      if (this.shown === null) fill(this.body);
    }
  }
}

export function card(title: Child, ...children: Child[]): HTMLElement {
  return h("section", { class: "card" }, title ? h("h2", {}, title) : null, children);
}

export function fact(name: string, value: Child): HTMLElement {
  return h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, value));
}
