// A few lines at the pointer, within the place that it is about.
import { fill, h } from "../lib/dom";
import type { Child } from "../types/page";

const AWAY = 14;

export class Tip {
  readonly node = h("div", { class: "tip", role: "status", hidden: true });

  // x and y within `area`, which has the node in it and is what it must not leave.
  show(area: HTMLElement, x: number, y: number, ...lines: Child[]): void {
    fill(
      this.node,
      lines.filter(Boolean).map((line) => h("div", {}, line)),
    );
    this.node.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.node;
    const left = x + AWAY + width > area.clientWidth ? x - AWAY - width : x + AWAY;
    const isLow = area.getBoundingClientRect().top + y + AWAY + height > window.innerHeight;
    this.node.style.setProperty("left", `${Math.max(0, left)}px`);
    this.node.style.setProperty("top", `${isLow ? y - AWAY - height : y + AWAY}px`);
  }

  hide() {
    this.node.hidden = true;
  }
}
