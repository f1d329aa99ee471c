// A session of Python's prompt inside a process: its names stay from line to line (docs/guides/repl.md).
import { post } from "./api.js";

const COMPLETION_SECONDS = 2;
const GIL_SECONDS = 5;

export class ReplSession {
  constructor(target) {
    this.target = target;
    this.session = `page-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
  }

  ask(op, code, more = {}, signal = undefined) {
    const { target, session } = this;
    return post("eval", { target, session, op, code, gil_timeout: GIL_SECONDS, ...more }, signal);
  }

  // What eval answers; isIncomplete() says when more lines are needed, `isWhole` that none will come.
  run(code, { isWhole, timeout, signal }) {
    return this.ask("line", code, { whole: isWhole ? "1" : "0", timeout }, signal);
  }

  async complete(text, signal) {
    const { value } = await this.ask("complete", text, { timeout: COMPLETION_SECONDS }, signal);
    return parseCompletion(value ?? "0");
  }

  interrupt() {
    return post("interrupt", { target: this.target, session: this.session });
  }

  close() {
    return this.ask("close", "", { timeout: COMPLETION_SECONDS }).catch(() => {});
  }
}

export function isIncomplete({ exception }) {
  return exception === "Incomplete";
}

// "3\nprint\nproperty": the last 3 characters give way to one of these.
export function parseCompletion(text) {
  const [count, ...candidates] = String(text).split("\n");
  return { count: Number(count) || 0, candidates };
}

// The text with as much as all candidates have in common.
export function withCompletion(text, { count, candidates }) {
  if (candidates.length === 0) return text;
  let common = candidates[0];
  for (const candidate of candidates) while (!candidate.startsWith(common)) common = common.slice(0, -1);
  const kept = text.slice(0, text.length - count);
  return common.length >= count ? kept + common : text;
}
