// Who answers: the hosts themselves, or the store that they send their rows to, where there is one.
import { fill, h } from "../lib/dom";
import { current, makeHash } from "../lib/state";
import { storeName } from "../lib/store";

export function isStore(params: URLSearchParams) {
  return params.get("source") === "store";
}

// Another source is another page: it is mounted anew.
export function sourcePicker(params: URLSearchParams, signal: AbortSignal): HTMLElement {
  const chosen = isStore(params) ? "store" : "";
  const select = h("select", { "aria-label": "Source" });
  const node = h("label", { class: "check", hidden: true }, "Ask", select);
  select.addEventListener("change", () => {
    const { page, params: now } = current();
    now.set("source", select.value);
    location.hash = makeHash(page, now);
  });
  storeName(signal).then(
    (name) => {
      node.hidden = name === null && !chosen;
      fill(
        select,
        h("option", { value: "" }, "the hosts, live"),
        h("option", { value: "store" }, `the store ${name ?? ""}`),
      );
      select.value = chosen;
    },
    () => {}, // then there is no choice, and whoever asks will hear why
  );
  return node;
}
