// Settings of probingd and of the target, each with what it does; and what runs here.
import { asFailure, get, post } from "../lib/api";
import { fill, h } from "../lib/dom";
import { bytes, integer, span } from "../lib/format";
import { choice } from "../parts/controls";
import { card, empty, fact, failure, loading, prose } from "../parts/states";
import { setTheme, themeChoice } from "../parts/theme_button";
import type { Setting } from "../types/api";
import type { Child, Option, PageContext } from "../types/page";

const THEMES: Option[] = [
  ["auto", "as the system"],
  ["light", "light"],
  ["dark", "dark"],
];

export function mount({ root, target, signal, live }: PageContext) {
  const status = h("dl", { class: "facts" });
  const forTarget = h("div", {}, loading());
  const forDaemon = h("div", {}, loading());
  fill(
    root,
    card("probingd", status),
    card(
      "This page",
      h(
        "div",
        { class: "toolbar" },
        h("label", {}, "Colours", choice("Colours", THEMES, themeChoice(), setTheme).node),
      ),
    ),
    target ? card(`Settings of process ${target}`, forTarget) : null,
    card("Settings of probingd", forDaemon),
  );
  show(forDaemon, null, signal);
  if (target) show(forTarget, target, signal);
  live(async () => {
    const { version, pid, uptime_s: uptime, targets, rss_bytes: rss } = await get("status", signal);
    fill(
      status,
      fact("Version", version),
      fact("pid", String(pid)),
      fact("Up", span(uptime)),
      fact("Targets", integer(targets)),
      fact("Memory", bytes(rss)),
    );
  }, 5000);
}

async function show(node: HTMLElement, target: number | null, signal: AbortSignal): Promise<void> {
  try {
    const { settings } = await get(target ? `config?target=${target}` : "config", signal);
    fill(
      node,
      settings.length > 0
        ? h(
            "div",
            { class: "settings" },
            settings.map((setting) => row(setting, target, signal)),
          )
        : empty("No settings", ""),
    );
  } catch (error) {
    if (!signal.aborted) fill(node, failure(asFailure(error)));
  }
}

function row(
  { name, value, default: standard, description }: Setting,
  target: number | null,
  signal: AbortSignal,
): HTMLElement {
  const message = h("div", { class: "setting-message", role: "status" });
  const input = h("input", { type: "text", class: "mono", "aria-label": name, value });
  const save = h("button", { class: "small", disabled: true }, "Set");
  const isChanged = () => input.value.trim() !== value;
  const form = h(
    "form",
    { class: "setting" },
    h("div", {}, h("label", { class: "mono" }, name), h("div", { class: "quiet-text" }, description)),
    h("div", { class: "setting-value" }, input, save),
    message,
  );
  const note = (...children: Child[]) => fill(message, children);
  const tell = () =>
    note(
      value === standard ? null : h("span", { class: "quiet-text" }, "default: ", h("code", {}, standard)),
    );
  input.addEventListener("input", () => (save.disabled = !isChanged()));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!isChanged()) return;
    try {
      const body = { target: target ?? undefined, set: { [name]: input.value.trim() } };
      const { settings } = await post("config", body, signal);
      value = settings.find((setting) => setting.name === name)?.value ?? input.value.trim();
      input.value = value;
      save.disabled = true;
      tell();
      message.prepend(h("span", { class: "badge good" }, "set"), " ");
    } catch (error) {
      const { message: why, hint = "" } = asFailure(error);
      if (!signal.aborted) note(h("span", { class: "badge bad" }, "not set"), " ", why, " ", prose(hint));
    }
  });
  tell();
  return form;
}
