// Asks again and again, but only while somebody looks: a hidden tab asks nothing.
import { ApiError, asFailure } from "./api";
import type { PollOptions } from "../types/page";

const MAX_WAIT_MS = 15_000;
let paused = false;
const changed = new EventTarget();

export function isPaused() {
  return paused;
}

export function setPaused(value: boolean) {
  paused = value;
  changed.dispatchEvent(new Event("change"));
}

export function isAwake(signal: AbortSignal) {
  return !document.hidden && !paused && !signal.aborted;
}

// When the page is seen again, hidden, paused or goes on: isAwake() says which.
export function whenAwake(run: () => void, signal: AbortSignal): void {
  document.addEventListener("visibilitychange", run, { signal });
  changed.addEventListener("change", run, { signal });
}

// Runs `task` now and `every` ms after its end, until the signal. A task that fails is asked less and
// less often; `failed` hears of it, and of its success with null.
// asks at once
export function poll(task: () => Promise<unknown>, { every, signal, failed }: PollOptions): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let running = false;
  let again = false;
  let failures = 0;

  const mayRun = () => isAwake(signal);

  async function run() {
    clearTimeout(timer);
    if (running) {
      again = true;
      return;
    }
    running = true;
    try {
      await task();
      failures = 0;
      failed?.(null);
    } catch (error) {
      if (signal.aborted || asFailure(error).name === "AbortError") return;
      if (!(error instanceof ApiError)) console.error(error); // not the server's fault but ours
      failures += 1;
      failed?.(asFailure(error));
    } finally {
      running = false;
    }
    if (signal.aborted) return;
    const wait = again ? 0 : Math.min(every * 2 ** Math.min(failures, 6), Math.max(every, MAX_WAIT_MS));
    again = false;
    timer = setTimeout(() => mayRun() && run(), wait);
  }

  whenAwake(() => mayRun() && run(), signal);
  signal.addEventListener("abort", () => clearTimeout(timer));
  run();
  return run;
}
