// Settings of probingd and of the target by what they are about, each as what it is; and what runs here.
import { asFailure, get, post } from "../lib/api";
import { groupBy } from "../lib/cells";
import { fill, h } from "../lib/dom";
import { bytes, integer, span } from "../lib/format";
import { loadRight, may } from "../lib/rights";
import { fieldOf } from "../parts/setting_fields";
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

// By the word behind "probing."; what is not here is general.
const GROUPS: Record<string, string> = {
  eval: "Console and debugger",
  debug: "Console and debugger",
  mcp: "Console and debugger",
  torch: "PyTorch",
  profile: "PyTorch",
  trace: "PyTorch",
  python: "Python",
  stalls: "Stalls",
  sample_rate: "Sampling",
  sample_native: "Sampling",
  sample_memory: "Sampling",
  max_memory: "Tables in memory",
  table_rows: "Tables in memory",
  keep_ended: "Tables in memory",
  system: "Tables in memory",
  query: "Queries",
  diagnose: "Diagnosis",
  retention_days: "History and store",
  retention_bytes: "History and store",
  data_dir: "History and store",
  history: "History and store",
  store: "History and store",
  server: "Who may come, and from where",
  cluster: "Other hosts",
};

export function mount({ root, target, signal, live }: PageContext) {
  const status = h("dl", { class: "facts" });
  const forTarget = h("div", { class: "page" }, loading());
  const forDaemon = h("div", { class: "page" }, loading());
  fill(
    root,
    h(
      "div",
      { class: "cards" },
      card("probingd", status),
      card(
        "This page",
        h("div", { class: "toolbar" }, h("label", {}, "Colours", choice("Colours", THEMES, themeChoice(), setTheme).node)),
      ),
    ),
    target ? [h("h2", { class: "section" }, `Process ${target}`), forTarget] : null,
    h("h2", { class: "section" }, "probingd"),
    forDaemon,
  );
  void show(forDaemon, null, signal);
  if (target) void show(forTarget, target, signal);
  live(async () => {
    const { version, pid, uptime_s: uptime, targets, rss_bytes: rss, right } = await get("status", signal);
    fill(
      status,
      fact("Version", version),
      fact("pid", String(pid)),
      fact("Up", span(uptime)),
      fact("Targets", integer(targets)),
      fact("Memory", bytes(rss)),
      fact("Your right", right),
    );
  }, 5000);
}

async function show(node: HTMLElement, target: number | null, signal: AbortSignal): Promise<void> {
  try {
    await loadRight();
    const { settings } = await get(target ? `config?target=${target}` : "config", signal);
    const groups = groupBy(settings, ({ name }) => GROUPS[name.split(".")[1]] ?? "General");
    const cards = [...groups].map(([title, list]) =>
      card(
        title,
        h(
          "div",
          { class: "settings" },
          list.map((setting) => row(setting, target, signal)),
        ),
      ),
    );
    fill(node, settings.length > 0 ? h("div", { class: "setting-cards" }, cards) : empty("No settings", ""));
  } catch (error) {
    if (!signal.aborted) fill(node, failure(asFailure(error)));
  }
}

function row(setting: Setting, target: number | null, signal: AbortSignal): HTMLElement {
  const { name, default: standard, description } = setting;
  let value = setting.value;
  const message = h("div", { class: "setting-message", role: "status" });
  const changed = () => (save.disabled = field.value() === value || !may("eval"));
  const field = fieldOf(setting, changed);
  const save = h("button", { class: "small", disabled: true }, "Set");
  const back = h(
    "button",
    { type: "button", class: "small quiet", title: `Back to ${standard || "nothing"}`, onclick: () => void set(standard) },
    "Default",
  );
  const note = (...children: Child[]) => fill(message, children);
  const tell = () => {
    back.hidden = value === standard || !may("eval");
    save.disabled = true;
    note(value === standard ? null : ["default: ", h("code", {}, standard || "nothing")]);
  };
  const set = async (wanted: string) => {
    try {
      const body = { target: target ?? undefined, set: { [name]: wanted } };
      const { settings } = await post("config", body, signal);
      value = settings.find((one) => one.name === name)?.value ?? wanted;
      field.show(value);
      tell();
      message.prepend(h("span", { class: "badge good" }, "set"), " ");
    } catch (error) {
      const { message: why, hint = "" } = asFailure(error);
      if (!signal.aborted) note(h("span", { class: "badge bad" }, "not set"), " ", why, " ", prose(hint));
    }
  };
  const submit = (event: Event) => {
    event.preventDefault();
    if (field.value() !== value) void set(field.value());
  };
  tell();
  return h(
    "form",
    { class: "setting", "data-changed": value === standard ? null : "1", onsubmit: submit },
    h("div", {}, h("span", { class: "mono setting-name" }, name), h("div", { class: "quiet-text" }, prose(description))),
    h("div", {}, h("div", { class: "setting-value" }, field.node, save, back), message),
  );
}
