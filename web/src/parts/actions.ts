// Buttons that do something to a process: what right they take, what came of it.
import { asFailure, get, post } from "../lib/api";
import { fill, h } from "../lib/dom";
import { seconds } from "../lib/format";
import { link } from "../lib/state";
import { loadRight, may } from "../lib/rights";
import { targets } from "../lib/targets";
import { prose } from "./states";
import type { Right } from "../types/api";
import type { Child, Hear } from "../types/page";

interface Action {
  text: string;
  right: Right;
  title: string;
  kind?: string;
  run: () => Promise<Child>; // what to say of it
}

// `tell` hears what came of it.
export function actionButton({ text, right, title, kind = "", run }: Action, tell: Hear<Child>): HTMLElement {
  const button = h("button", { type: "button", class: kind, title }, text);
  const allow = () => {
    button.disabled = !may(right);
    if (button.disabled) button.title = `${title} – takes the right to ${right}`;
  };
  button.addEventListener("click", async () => {
    button.disabled = true;
    button.setAttribute("aria-busy", "true");
    try {
      tell(await run());
    } catch (error) {
      const { message, hint = "" } = asFailure(error);
      tell(h("span", { class: "bad-text" }, message, " ", prose(hint)));
    } finally {
      button.removeAttribute("aria-busy");
      allow();
    }
  });
  allow();
  void loadRight().then(allow);
  return button;
}

// Puts the probe in. `done` is called when it is there.
export function injectButton(pid: number, tell: Hear<Child>, done: () => void, kind = "primary"): HTMLElement {
  return actionButton(
    {
      text: "Inject",
      right: "eval",
      kind,
      title: `Put the probe into process ${pid}, as probing -t ${pid} inject does`,
      run: async () => {
        const { held_us: held, already } = await post("inject", { target: pid });
        targets.again();
        done();
        if (already) return "The probe was there already.";
        return `The probe is in${held === undefined ? "" : `; one thread was held for ${seconds(held / 1e6)}`}.`;
      },
    },
    tell,
  );
}

function traceButton(pid: number, tell: Hear<Child>): HTMLElement {
  let on = false;
  const button = actionButton(
    {
      text: "Trace",
      right: "eval",
      title: "Switch tracing of PyTorch's steps and modules on or off",
      run: async () => {
        await post("config", { target: pid, set: { "probing.torch.profiling": on ? "off" : "on" } });
        show(!on);
        return on ? "Tracing is on: rows come with the next steps." : "Tracing is off.";
      },
    },
    tell,
  );
  const show = (value: boolean) => {
    on = value;
    button.setAttribute("aria-pressed", String(on));
  };
  get(`config?target=${pid}`).then(
    ({ settings }) =>
      show((settings.find(({ name }) => name === "probing.torch.profiling")?.value ?? "off") !== "off"),
    () => {}, // the button will say why
  );
  return button;
}

function ejectButton(pid: number, tell: Hear<Child>): HTMLElement {
  const run = async () => {
    await post("eject", { target: pid });
    targets.again();
    return "The probe is leaving; the process goes on as it was.";
  };
  const title = "Take the probe out again: hooks, threads and memory of ours go";
  return actionButton({ text: "Eject", right: "eval", title, run }, tell);
}

// Everything that can be done with one process. A process that has ended has none of it.
export function actionBar(pid: number, isProbed: boolean): HTMLElement {
  const said = h("span", { class: "quiet-text", role: "status" });
  const tell = (what: Child) => fill(said, what);
  const go = (page: string, text: string, title: string) =>
    h("a", { class: "button", href: link(page, { target: pid }), title }, text);
  return h(
    "div",
    { class: "toolbar actions" },
    isProbed ? null : injectButton(pid, tell, () => {}),
    go("stacks", "Stacks", "Where every thread is now"),
    go("flame", "Flame graph", "Where the time goes"),
    isProbed && [
      traceButton(pid, tell),
      go("profile", "Profile", "Operators and kernels, by torch's own profiler"),
      go("memory", "Leaks", "What there is more and more of"),
      go("console", "Console", "Python's prompt in this process"),
      ejectButton(pid, tell),
    ],
    said,
  );
}
