// The menu at the side (above, on narrow screens) and the list of keys.
import { h, icon } from "../lib/dom";
import { link } from "../lib/state";
import { PAGES } from "../routes";
import { makeThemeButton } from "./theme_button";

export function makeMenu() {
  const links = new Map(
    PAGES.map(({ name, title, icon: path }, i) => {
      const hint = i < 10 ? `${title} (${(i + 1) % 10})` : title;
      return [name, h("a", { href: `#/${name}`, title: hint }, icon(path), h("span", {}, title))];
    }),
  );
  const logo = icon("M3 13h4l3-8 4 14 3-9 1 3h3", 22);
  const brand = h("div", { class: "brand" }, logo, h("span", {}, "Probing"));
  const help = h("button", { class: "quiet", type: "button", title: "Keys (?)", onclick: showHelp }, "?");
  const node = h(
    "nav",
    { class: "menu", "aria-label": "Pages" },
    brand,
    h("div", { class: "links" }, [...links.values()]),
    h("div", { class: "menu-foot" }, makeThemeButton(), help),
  );
  const select = (name: string) => {
    for (const [page, anchor] of links) {
      anchor.href = link(page);
      if (page === name) {
        anchor.setAttribute("aria-current", "page");
        bringIntoView(anchor);
      } else {
        anchor.removeAttribute("aria-current");
      }
    }
  };
  return { node, select };
}

// Where the menu is a line that scrolls. With the next picture: asked at once, all would be laid out twice.
function bringIntoView(anchor: Element) {
  requestAnimationFrame(() => anchor.scrollIntoView({ block: "nearest", inline: "center" }));
}

const KEYS = [
  ["1 … 9, 0", "pages of the menu"],
  ["Ctrl+K", "go to any page, job or process"],
  ["p", "stop and go on asking"],
  ["Ctrl+Enter", "run the query or the code"],
  ["Ctrl+Space", "complete SQL"],
  ["arrows, Enter, Esc", "walk, zoom and go back in a flame graph"],
  ["?", "this list"],
];

export function showHelp() {
  const close = () => dialog.remove();
  const dialog: HTMLDialogElement = h(
    "dialog",
    { class: "help", onclose: close, onclick: (event) => event.target === dialog && dialog.close() },
    h("h2", {}, "Keys"),
    h(
      "dl",
      {},
      KEYS.map(([keys, what]) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, what)]),
    ),
    h("button", { type: "button", onclick: () => dialog.close() }, "Close"),
  );
  document.body.append(dialog);
  dialog.showModal();
}
