// The flame graph of the page, and of files that `probing flamegraph` writes: classes in a legend that shows and
// hides them, three orders, one function alone ("sandwich"), a search, and the functions by their time.
import { fill, h } from "../lib/dom";
import { buildTree, ranking } from "../lib/flame_tree";
import { CLASSES, classTitle, fillOf } from "../lib/flame_palette";
import { sandwich, withoutClasses } from "../lib/flame_views";
import { check, choice } from "./controls";
import { FlameView, percentOf } from "./flame_view";
import type { FlameClass } from "../lib/flame_palette";
import type { FlameOrder, FlameStack } from "../types/flame";
import type { Changes, Hear, Option } from "../types/page";

const ORDERS: Option[] = [
  ["name", "by name"],
  ["heavy", "heaviest first"],
  ["time", "in time"],
];
const MOST_FUNCTIONS = 100;

export class FlameGraph {
  private stacks: FlameStack[] = [];
  private before: FlameStack[] | null = null;
  private readonly hidden: Set<FlameClass>;
  private alone: string | null; // a function

  readonly view: FlameView;
  private readonly callers: FlameView;
  private readonly callees: FlameView;
  private readonly legend = h("div", { class: "flame-legend", role: "group", "aria-label": "Classes" });
  private readonly order;
  private readonly byThread;
  private readonly byRank;
  private readonly inverted;
  private readonly search: HTMLInputElement;
  private readonly matched = h("span", { class: "quiet-text", role: "status" });
  private readonly whole: HTMLElement;
  private readonly lone = h("div", { class: "sandwich" });
  private readonly functions = h("div", {});
  readonly node: HTMLElement;

  // `changed` hears what the address should say.
  constructor(
    params: URLSearchParams,
    signal: AbortSignal,
    private readonly changed: Hear<Changes>,
  ) {
    const is = (name: string) => params.get(name) === "1";
    const hides = (params.get("hide") ?? "").split(",");
    this.hidden = new Set(CLASSES.filter((name) => hides.includes(name)));
    this.alone = params.get("fn");
    const again = (changes: Changes) => {
      this.changed(changes);
      this.draw();
    };
    this.view = new FlameView(signal, (label) => this.showAlone(label));
    this.callers = new FlameView(signal, (label) => this.showAlone(label));
    this.callees = new FlameView(signal, (label) => this.showAlone(label));
    this.callers.inverted = true;
    this.order = choice("Order", ORDERS, params.get("order"), (value) => again({ order: value === "name" ? "" : value }));
    this.byThread = check("By thread", is("threads"), (value) => again({ threads: value }));
    this.byRank = check("By rank", params.get("ranks") !== "0", (value) => again({ ranks: value ? "" : "0" }));
    this.inverted = check("Upwards", is("up"), (value) => again({ up: value }));
    this.search = h("input", {
      type: "search",
      placeholder: "Search (regular expression)",
      "aria-label": "Search",
      value: params.get("find") ?? "",
      oninput: () => {
        this.changed({ find: this.search.value });
        this.find();
      },
    });
    const reset = h("button", { type: "button", onclick: () => this.view.reset() }, "Reset zoom");
    this.whole = h("div", {}, this.view.node);
    this.node = h(
      "div",
      { class: "flame-graph" },
      h(
        "div",
        { class: "toolbar" },
        this.search,
        this.matched,
        h("span", { class: "grow" }),
        h("label", {}, "Order", this.order.node),
        [this.byRank, this.byThread, this.inverted].map(({ node }) => node),
        reset,
      ),
      this.legend,
      this.whole,
      this.lone,
      this.functions,
    );
  }

  // `unit` is that of the weights.
  set(stacks: FlameStack[], before: FlameStack[] | null = null, unit = "samples"): void {
    for (const view of [this.view, this.callers, this.callees]) view.unit = unit;
    this.stacks = stacks;
    this.before = before;
    this.draw();
  }

  // As they are drawn.
  shown(): FlameStack[] {
    return withoutClasses(this.stacks, this.hidden);
  }

  find() {
    const target = this.alone === null ? this.view : this.callees;
    this.callers.search(this.alone === null ? "" : this.search.value);
    this.matched.textContent = target.search(this.search.value);
  }

  private showAlone(label: string | null) {
    this.alone = label;
    this.changed({ fn: label });
    this.draw();
  }

  private draw() {
    const stacks = this.shown();
    const order = this.order.value() as FlameOrder;
    this.byRank.node.hidden = !this.stacks.some(({ rank }) => rank !== "");
    const options = { byThread: this.byThread.on(), byRank: this.byRank.on(), inTime: order === "time" };
    this.drawLegend();
    this.whole.hidden = this.alone !== null;
    if (this.alone === null) {
      this.view.inverted = this.inverted.on();
      const other = this.before && order !== "time" ? withoutClasses(this.before, this.hidden) : null;
      this.view.set(buildTree(stacks, options), other && other.length > 0 ? buildTree(other, options) : null, order);
      fill(this.lone);
    } else {
      this.drawAlone(stacks, this.alone, order === "time" ? "heavy" : order);
    }
    this.find();
    fill(this.functions, this.ranking(stacks));
  }

  // Both have the function in the middle: who calls it above, what it calls below.
  private drawAlone(stacks: FlameStack[], label: string, order: FlameOrder) {
    const { callers, callees } = sandwich(stacks, label);
    if (!this.lone.firstChild) {
      fill(
        this.lone,
        h(
          "div",
          { class: "toolbar" },
          h("strong", { class: "mono lone-name" }),
          h("button", { type: "button", onclick: () => this.showAlone(null) }, "Show all"),
        ),
        h("h3", {}, "Called by"),
        this.callers.node,
        h("h3", {}, "Calls"),
        this.callees.node,
      );
    }
    this.lone.querySelector(".lone-name")!.textContent = label;
    this.callers.set(callers, null, order);
    this.callees.set(callees, null, order);
  }

  // Of the classes that there are: a click takes their frames out, or puts them back.
  private drawLegend() {
    const dark = document.documentElement.dataset.theme === "dark";
    const there: Set<FlameClass> = new Set(this.stacks.flatMap(({ frames }) => frames.map(({ kind }) => kind)));
    if (this.stacks.some(({ running, gil }) => !running && !gil)) there.add("idle");
    const toggle = (name: FlameClass) => {
      if (this.hidden.has(name)) this.hidden.delete(name);
      else this.hidden.add(name);
      this.changed({ hide: [...this.hidden].join(",") });
      this.draw();
      this.legend.querySelector<HTMLElement>(`[data-class="${name}"]`)?.focus();
    };
    fill(
      this.legend,
      CLASSES.filter((name) => there.has(name) && name !== "group").map((name) =>
        h(
          "button",
          {
            type: "button",
            class: "legend-entry",
            "data-class": name,
            "aria-pressed": String(!this.hidden.has(name)),
            onclick: () => toggle(name),
          },
          h("i", { style: { background: fillOf(name, "", dark) } }),
          classTitle(name),
        ),
      ),
    );
  }

  private ranking(stacks: FlameStack[]): HTMLElement {
    const { all, list } = ranking(stacks, MOST_FUNCTIONS);
    const dark = document.documentElement.dataset.theme === "dark";
    const rows = list.map(({ label, kind, self, total }) =>
      h(
        "tr",
        { "aria-selected": label === this.alone ? "true" : null },
        h("td", { class: "number" }, percentOf(self, all)),
        h("td", { class: "number" }, percentOf(total, all)),
        h(
          "td",
          { class: "mono" },
          h("i", { class: "swatch", style: { background: fillOf(kind, label, dark) } }),
          h("button", { type: "button", class: "plain", title: "Callers and callees", onclick: () => this.showAlone(label) }, label),
        ),
      ),
    );
    const heads = ["Own", "With callees", "Function"].map((name, i) => h("th", { class: i < 2 ? "number" : null }, name));
    return h(
      "details",
      { class: "functions", open: true },
      h("summary", {}, "Functions"),
      h("div", { class: "scroll-x" }, h("table", { class: "plain keep" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows))),
    );
  }
}
