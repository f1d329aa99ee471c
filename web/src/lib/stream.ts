// Follows the server's events (GET events): what changes comes by itself, but only while somebody looks.
import { ApiError, asFailure, failure, parseJson, toRecords, UNREACHABLE } from "./api";
import { isAwake, whenAwake } from "./poll";
import type { Rows, StreamEvents } from "../types/api";
import type { FollowOptions, FollowQueries, HearEvent } from "../types/page";

const FIRST_WAIT_MS = 500;
const MAX_WAIT_MS = 15_000;

// Blocks of lines end with a blank one; `hear` gets the name of an event and its data.
export class EventReader {
  text = "";

  hear: HearEvent;

  constructor(hear: HearEvent) {
    this.hear = hear;
  }

  read(piece: string) {
    const blocks = (this.text + piece).split("\n\n");
    this.text = blocks.pop() ?? "";
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").map((line) => splitAt(line, ": ")));
      if (fields.data !== undefined) this.hear(fields.event ?? "message", fields.data);
    }
  }
}

function splitAt(line: string, separator: string): [string, string] {
  const at = line.indexOf(separator);
  return at < 0 ? [line, ""] : [line.slice(0, at), line.slice(at + separator.length)];
}

async function listen(
  parameters: Record<string, string>,
  signal: AbortSignal,
  hear: HearEvent,
): Promise<void> {
  const url = new URL(`api/v1/events?${new URLSearchParams(parameters)}`, document.baseURI);
  const response = await fetch(url, { signal, headers: { Accept: "text/event-stream" } });
  if (!response.ok) throw failure(response, await response.text());
  const reader = new EventReader(hear);
  if (!response.body) return;
  const pieces = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let next = await pieces.read(); !next.done; next = await pieces.read()) reader.read(next.value);
}

// Events until the signal; a connection that ends is made again, less and less often while it fails.
// `failed` hears of it, and with null that it works. `parameters()` is asked anew for each connection. What is
// returned begins anew.
export function follow(
  parameters: () => Record<string, string>,
  { signal, hears, failed, parse = JSON.parse }: FollowOptions,
): () => void {
  let connection = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let failures = 0;

  const hear: HearEvent = (name, data) => {
    const value = parse(data);
    if (name === "failed") throw new ApiError(value.error);
    failures = 0;
    failed?.(null);
    hears[name as keyof StreamEvents]?.(value);
  };

  async function run() {
    clearTimeout(timer);
    connection.abort();
    if (!isAwake(signal)) return;
    const own = new AbortController();
    connection = own;
    let problem = new ApiError(UNREACHABLE); // there is no end to it while the server lives
    try {
      await listen(parameters(), own.signal, hear);
    } catch (error) {
      const { name } = asFailure(error);
      if (error instanceof ApiError) problem = error;
      else if (name !== "TypeError" && name !== "AbortError") console.error(error);
    }
    if (own.signal.aborted) return;
    own.abort();
    failures += 1;
    if (failures > 1 || problem.code !== "unreachable") failed?.(problem);
    timer = setTimeout(run, Math.min(FIRST_WAIT_MS * 2 ** failures, MAX_WAIT_MS));
  }

  whenAwake(run, signal);
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    connection.abort();
  });
  run();
  return run;
}

// Several queries over one connection: `heard` gets {name: {columns, rows}} of all of them whenever one
// has changed. `queries()` gives {name: sql}; asked anew when the returned function is called.
export function followQueries(
  queries: () => Record<string, string>,
  { target, seconds, signal, heard, failed }: FollowQueries,
) {
  let results: Record<string, Rows> = {};
  const parameters = () => {
    results = {};
    const fields = { interval: String(seconds), queries: JSON.stringify(queries()) };
    return target ? { ...fields, target: String(target) } : fields;
  };
  const hears: FollowOptions["hears"] = {
    results: (changed) => {
      results = { ...results, ...changed };
      heard(results);
    },
  };
  return follow(parameters, { signal, hears, failed, parse: parseJson });
}

// Who asked says what rows these are.
export function recordsOf<T>(results: Record<string, Rows>): T {
  const lists = Object.entries(results).map(([name, result]) => [name, toRecords(result)]);
  return Object.fromEntries(lists) as T;
}
