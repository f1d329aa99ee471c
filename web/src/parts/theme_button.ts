// Light, dark, or as the system has it.
import { fill, h, icon } from "../lib/dom";
import { remember, remembered } from "../lib/state";

const system = matchMedia("(prefers-color-scheme: dark)");
const ICONS: Record<string, string> = {
  light:
    "M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8M12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M19 5l-2 2M7 17l-2 2",
  dark: "M20 14A8 8 0 1 1 10 4a7 7 0 0 0 10 10z",
  auto: "M4 5h16v11H4zM9 20h6M12 16v4",
};
const NEXT: Record<string, string> = { auto: "light", light: "dark", dark: "auto" };

export function themeChoice() {
  return remembered("theme", "auto");
}

export function setTheme(choice: string) {
  remember("theme", choice);
  document.documentElement.dataset.theme = choice === "auto" ? (system.matches ? "dark" : "light") : choice;
  window.dispatchEvent(new Event("themechange"));
}

export function makeThemeButton() {
  const button = h("button", {
    class: "quiet",
    type: "button",
    onclick: () => setTheme(NEXT[themeChoice()]),
  });
  const show = () => {
    const choice = themeChoice();
    button.title = `Colours: ${choice === "auto" ? "as the system" : choice}`;
    button.setAttribute("aria-label", button.title);
    fill(button, icon(ICONS[choice] ?? ICONS.auto));
  };
  window.addEventListener("themechange", show);
  system.addEventListener("change", () => setTheme(themeChoice()));
  show();
  return button;
}
