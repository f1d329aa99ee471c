// A session of Python's prompt inside a process: its names stay from line to line (docs/guides/repl.md).
import { ApiError, post, UNREACHABLE } from "./api";
import type { ErrorBody, EvalAnswer, Printed } from "../types/api";
import type { Completion, Hear, RunOptions } from "../types/page";

const COMPLETION_SECONDS = 2;
const GIL_SECONDS = 5;

export class ReplSession {
  target: number;
  session: string;

  constructor(target: number) {
    this.target = target;
    this.session = `page-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
  }

  question(op: string, code: string, more: object) {
    const { target, session } = this;
    return { target, session, op, code, gil_timeout: GIL_SECONDS, ...more };
  }

  // What eval answers; isIncomplete() says when more lines are needed, `isWhole` that none will come.
  // `printed` hears {stdout, stderr} while the code runs; the answer has what is left of them.
  async run(code: string, { isWhole, timeout, printed, signal }: RunOptions): Promise<EvalAnswer> {
    const question = this.question("line", code, { whole: isWhole ? "1" : "0", timeout });
    return (await evaluateAloud(question, printed, signal)) ?? (await post("eval", question, signal));
  }

  async complete(text: string, signal: AbortSignal): Promise<Completion> {
    const question = this.question("complete", text, { timeout: COMPLETION_SECONDS });
    const { value } = await post("eval", question, signal);
    return parseCompletion(value ?? "0");
  }

  interrupt() {
    return post("interrupt", { target: this.target, session: this.session });
  }

  close() {
    return post("eval", this.question("close", "", { timeout: COMPLETION_SECONDS })).catch(() => {});
  }
}

// Over a WebSocket of its own, which ends with the answer: the session's names are in the process. Null when
// none can be had: a browser does not tell why, an answer to POST does.
function evaluateAloud(
  question: { target: number },
  printed: Hear<Printed>,
  signal: AbortSignal,
): Promise<EvalAnswer | null> {
  const url = new URL(`api/v1/repl?target=${question.target}`, document.baseURI);
  url.protocol = url.protocol.replace("http", "ws");
  const socket = new WebSocket(url);
  signal.addEventListener("abort", () => socket.close());
  return new Promise((resolve, reject) => {
    let opened = false;
    socket.onopen = () => {
      opened = true;
      socket.send(JSON.stringify({ ...question, stream: true }));
    };
    socket.onmessage = ({ data }) => {
      const answer: EvalAnswer & { partial?: boolean; error?: ErrorBody } = JSON.parse(data);
      if (answer.partial) return printed(answer);
      if (answer.error) reject(new ApiError(answer.error));
      else resolve(answer);
      socket.close();
    };
    socket.onclose = () => (opened ? reject(new ApiError(UNREACHABLE)) : resolve(null));
  });
}

export function isIncomplete({ exception }: EvalAnswer) {
  return exception === "Incomplete";
}

// "3\nprint\nproperty": the last 3 characters give way to one of these.
export function parseCompletion(text: string): Completion {
  const [count, ...candidates] = String(text).split("\n");
  return { count: Number(count) || 0, candidates };
}

// The text with as much as all candidates have in common.
export function withCompletion(text: string, { count, candidates }: Completion): string {
  if (candidates.length === 0) return text;
  let common = candidates[0];
  for (const candidate of candidates) while (!candidate.startsWith(common)) common = common.slice(0, -1);
  const kept = text.slice(0, text.length - count);
  return common.length >= count ? kept + common : text;
}
