// The HTTP API (src/wire/contract.h) as functions. Every failure is an ApiError that says what to do next.
import type { ErrorBody, GetAnswers, PostAnswers, Rows } from "../types/api";
import type { Failure, Query } from "../types/page";

export class ApiError extends Error {
  code: string;
  hint: string;
  status: number;

  constructor({ code, message, hint }: ErrorBody, status = 0) {
    super(message);
    this.code = code;
    this.hint = hint ?? "";
    this.status = status;
  }
}

export const UNREACHABLE = {
  code: "unreachable",
  message: "probingd does not answer",
  hint: "It may have ended: `probing serve` starts it again. This page goes on as soon as it answers.",
};

// Whatever was thrown, as something that can be told.
export function asFailure(error: unknown): Failure {
  return error instanceof Error ? error : { message: String(error) };
}

async function send<T>(
  method: "GET" | "POST",
  route: string,
  body: object | undefined,
  signal: AbortSignal | undefined,
  read: (response: Response) => Promise<T>,
) {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const options = { method, signal, headers, body: body && JSON.stringify(body) };
  try {
    const response = await fetch(new URL(`api/v1/${route}`, document.baseURI), options);
    return { response, content: await read(response) };
  } catch (error) {
    if (asFailure(error).name === "AbortError") throw error;
    throw new ApiError(UNREACHABLE);
  }
}

export function failure(response: Response, text: string): ApiError {
  try {
    const { error } = JSON.parse(text);
    if (error?.message) return new ApiError(error, response.status);
  } catch {
    // Not ours: a proxy in between, perhaps.
  }
  const message = `${response.status} ${response.statusText}`.trim();
  return new ApiError(
    { code: "failed", message: `the server answered ${message}`, hint: "" },
    response.status,
  );
}

// Integers that a double cannot hold become BigInt: what is shown is what was stored. They are marked in
// the text, since JSON.parse has rounded them before anybody can look.
const LONG_INTEGER = /("(?:[^"\\]|\\.)*")|(?<![\d.])(-?\d{16,})(?![\d.eE])/g;
const MARK = "\0integer:";

export function parseJson(text: string) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  let marked = false;
  const changed = text.replace(LONG_INTEGER, (whole, string, digits) => {
    if (string !== undefined || Number.isSafeInteger(Number(digits))) return whole;
    marked = true;
    return `"\\u0000integer:${digits}"`;
  });
  if (!marked) return JSON.parse(text);
  return JSON.parse(changed, (_key, value) =>
    typeof value === "string" && value.startsWith(MARK) ? integerOf(value.slice(MARK.length)) : value,
  );
}

function integerOf(digits: string) {
  return /^-?\d+$/.test(digits) ? BigInt(digits) : digits;
}

const asText = (response: Response) => response.text();

export async function get<R extends keyof GetAnswers>(
  route: R | `${R}?${string}`,
  signal?: AbortSignal,
): Promise<GetAnswers[R]> {
  const { response, content } = await send("GET", route, undefined, signal, asText);
  if (!response.ok) throw failure(response, content);
  return JSON.parse(content);
}

export async function post<R extends keyof PostAnswers>(
  route: R,
  body: object,
  signal?: AbortSignal,
): Promise<PostAnswers[R]> {
  const { response, content } = await send("POST", route, body, signal, asText);
  if (!response.ok) throw failure(response, content);
  return JSON.parse(content);
}

function queryBody(sql: string, { target, store }: Query, format?: string): object {
  return store ? { sql, store, format } : { sql, target: target ?? undefined, format };
}

// A target is a pid, none means all targets.
export async function query(sql: string, options: Query = {}): Promise<Rows> {
  const body = queryBody(sql, options);
  const { response, content } = await send("POST", "query", body, options.signal, asText);
  if (!response.ok) throw failure(response, content);
  return parseJson(content);
}

// The same as [{column: value}]; who asks says what columns these are.
export async function records<T>(sql: string, options?: Query): Promise<T[]> {
  return toRecords(await query(sql, options));
}

export function toRecords<T>({ columns, rows }: Rows): T[] {
  const records = rows.map((row) => Object.fromEntries(columns.map(({ name }, i) => [name, row[i]])));
  return records as T[];
}

// The bytes in another format: csv, json, jsonl, markdown, arrow, parquet.
export async function queryBytes(sql: string, format: string, options: Query = {}): Promise<ArrayBuffer> {
  const body = queryBody(sql, options, format);
  const read = (response: Response) => response.arrayBuffer();
  const { response, content } = await send("POST", "query", body, options.signal, read);
  if (!response.ok) throw failure(response, new TextDecoder().decode(content));
  return content;
}
