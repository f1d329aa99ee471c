// The HTTP API (src/wire/contract.h) as functions. Every failure is an ApiError that says what to do next.

export class ApiError extends Error {
  constructor({ code, message, hint }, status = 0) {
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

async function send(method, route, body, signal, kind = "text") {
  const options = { method, signal, headers: { Accept: "application/json" } };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  try {
    const response = await fetch(new URL(`api/v1/${route}`, document.baseURI), options);
    return { response, [kind]: await response[kind]() };
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(UNREACHABLE);
  }
}

export function failure(response, text) {
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

export function parseJson(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  let marked = false;
  const changed = text.replace(LONG_INTEGER, (whole, string, digits) => {
    if (string !== undefined || Number.isSafeInteger(Number(digits))) return whole;
    marked = true;
    return `"\\u0000integer:${digits}"`;
  });
  if (!marked) return JSON.parse(text);
  return JSON.parse(changed, (key, value) =>
    typeof value === "string" && value.startsWith(MARK) ? integerOf(value.slice(MARK.length)) : value,
  );
}

function integerOf(digits) {
  return /^-?\d+$/.test(digits) ? BigInt(digits) : digits;
}

export async function get(route, signal) {
  const { response, text } = await send("GET", route, undefined, signal);
  if (!response.ok) throw failure(response, text);
  return JSON.parse(text);
}

export async function post(route, body, signal) {
  const { response, text } = await send("POST", route, body, signal);
  if (!response.ok) throw failure(response, text);
  return JSON.parse(text);
}

function queryBody(sql, target, format) {
  const body = { sql };
  if (target) body.target = target;
  if (format) body.format = format;
  return body;
}

// {columns: [{name, type}], rows: [[…]]}; a target is a pid, none means all targets.
export async function query(sql, { target, signal } = {}) {
  const { response, text } = await send("POST", "query", queryBody(sql, target), signal);
  if (!response.ok) throw failure(response, text);
  return parseJson(text);
}

// The same as [{column: value}].
export async function records(sql, options) {
  return toRecords(await query(sql, options));
}

export function toRecords({ columns, rows }) {
  return rows.map((row) => Object.fromEntries(columns.map(({ name }, i) => [name, row[i]])));
}

// The bytes in another format: csv, json, jsonl, markdown, arrow, parquet.
export async function queryBytes(sql, format, { target, signal } = {}) {
  const body = queryBody(sql, target, format);
  const { response, arrayBuffer } = await send("POST", "query", body, signal, "arrayBuffer");
  if (!response.ok) throw failure(response, new TextDecoder().decode(arrayBuffer));
  return arrayBuffer;
}

export function sqlText(text) {
  return `'${String(text).replaceAll("'", "''")}'`;
}
