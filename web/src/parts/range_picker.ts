// The time that pages look at: presets, from one moment to another, back and forth, and back to now.
import { fill, h } from "../lib/dom";
import { bounds, fromPreset, PRESETS, presetOf, rangeText } from "../lib/range";
import type { Range } from "../types/page";

const CUSTOM = "custom";

export class RangePicker {
  range: Range = { seconds: 300 };

  private readonly changed: (range: Range, isNow?: boolean) => void;
  private readonly select = h("select", { "aria-label": "Time range", onchange: () => this.chosen() });
  private readonly back = stepButton("‹", "Earlier", () => this.shift(-0.5));
  private readonly forth = stepButton("›", "Later", () => this.shift(0.5));
  private readonly now = h(
    "button",
    { type: "button", class: "small", title: "Follow what happens now", onclick: () => this.follow() },
    "Now",
  );
  readonly node = h("div", { class: "range-picker" }, this.back, this.select, this.forth, this.now);

  // `isNow`: back to what happens now, rather than another time.
  constructor(changed: (range: Range, isNow?: boolean) => void) {
    this.changed = changed;
  }

  show(range: Range): void {
    this.range = range;
    const preset = presetOf(range);
    const own = preset === null ? [h("option", { value: "own" }, rangeText(range))] : [];
    const options = PRESETS.map(([value, name]) => h("option", { value }, name));
    fill(this.select, own, options, h("option", { value: CUSTOM }, "From … to …"));
    this.select.value = preset ?? "own";
    this.forth.hidden = this.now.hidden = !("from" in range);
  }

  private chosen() {
    const { value } = this.select;
    if (value === CUSTOM) this.ask();
    else if (value !== "own") this.changed(fromPreset(value));
  }

  private shift(share: number) {
    const { from, to } = bounds(this.range);
    const by = (to - from) * share;
    this.changed({ from: from + by, to: to + by });
  }

  private follow() {
    const { from, to } = bounds(this.range);
    const fits = PRESETS.find(([name]) => bounds(fromPreset(name)).to - bounds(fromPreset(name)).from >= to - from);
    this.changed(fromPreset((fits ?? PRESETS[2])[0]), true);
  }

  private ask() {
    const { from, to } = bounds(this.range);
    const first = moment("From", from);
    const last = moment("To", to);
    const close = () => {
      dialog.remove();
      this.show(this.range);
    };
    const done = (event: Event) => {
      event.preventDefault();
      const chosen = { from: new Date(first.value).getTime(), to: new Date(last.value).getTime() };
      dialog.close();
      if (chosen.to > chosen.from) this.changed(chosen);
    };
    const dialog = h(
      "dialog",
      { class: "help", "aria-label": "Time range", onclose: close },
      h(
        "form",
        { class: "range-form", onsubmit: done },
        h("label", {}, "From", first),
        h("label", {}, "To", last),
        h(
          "div",
          { class: "toolbar" },
          h("button", { class: "primary" }, "Show"),
          h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
        ),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
  }
}

function stepButton(text: string, label: string, onclick: () => void) {
  return h("button", { type: "button", class: "step", "aria-label": label, title: label, onclick }, text);
}

// In the reader's own time zone, as such fields have it.
function moment(label: string, ms: number) {
  const local = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
  return h("input", { type: "datetime-local", step: "1", "aria-label": label, value: local });
}
