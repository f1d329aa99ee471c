// @vitest-environment happy-dom
// Every page is mounted on answers as probingd gives them: what breaks one is seen without a browser.
import { afterEach, beforeEach, expect, type MockInstance, test, vi } from "vitest";
import { poll } from "./lib/poll";
import { targets } from "./lib/targets";
import { PAGES } from "./routes";
import type { Rows, Target } from "./types/api";
import type { PageContext } from "./types/page";

const PID = 17;
// One row that has a column for everything that the pages ask for: each takes those that it knows.
const ROW: Record<string, string | number | boolean | null> = {
  timestamp: "2026-01-01 00:00:00.5+00",
  who: "rank 0",
  pid: PID,
  rank: 0,
  host: "node7",
  tid: PID,
  table_name: "system.process",
  column_name: "generation",
  type: "BIGINT",
  kind: "stored",
  origin: "probe",
  doc: "collections",
  unit: "",
  cmdline: "python train.py",
  command: "python train.py",
  thread_name: "MainThread",
  name: "loss",
  state: "running",
  user: "me",
  started: "2026-01-01 00:00:00+00",
  threads: 3,
  func: "train",
  file: "/job/train.py",
  lineno: 7,
  depth: 0,
  frame_type: "Python",
  place: "train:7",
  module: "net.fc",
  module_type: "Linear",
  operation_name: "forward",
  stage: "forward",
  step: 5,
  steps: 1,
  time: 1_767_225_600,
  start: 1_767_225_600_000,
  start_ns: 1_767_225_600_000_000,
  duration: 0.5,
  duration_ms: 500,
  calls: 2,
  mean_ms: 1,
  total_ms: 2,
  value: 0.25,
  data_wait: 0.1,
  forward: 0.1,
  backward: 0.1,
  optimizer: 0.1,
  overhead: 0,
  rss: 1e8,
  vms: 2e8,
  fds: 9,
  cpu: 50,
  cpu_percent: 50,
  seconds: 0.5,
  bin: 1_767_225_600,
  rate: 2,
  traced: true,
  op: "aten::mm",
  self_us: 3,
  total_us: 4,
  mean_us: 2,
  gpu_us: 1,
  device: 0,
  busy_us: 1,
  idle_share: 0.5,
  exposed_share: 0,
  copy_us: 0,
  path_us: 1,
  thread: 17,
  duration_us: 5,
  timestamp_ns: 1_767_225_600_000_000_000,
  ms: 3,
};
const ROWS: Rows = {
  columns: Object.keys(ROW).map((name) => ({ name, type: typeof ROW[name] === "number" ? "DOUBLE" : "VARCHAR" })),
  rows: [Object.values(ROW)],
};
const FRAME = { kind: "python", func: "train", file: "/job/train.py", lineno: 7, first_line: 1, type: "Python" };
const LISTED: Target[] = [{ pid: PID, state: "live", command: "python train.py", python: "3.11", how: "ptrace" }];
const ANSWERS: Record<string, object> = {
  targets: { targets: LISTED },
  status: { right: "eval", version: "1", pid: 1, uptime_s: 5, targets: 1, rss_bytes: 1e7, listening: "127.0.0.1:3344" },
  config: {
    settings: [{ name: "probing.sample_rate", value: "0.1", default: "0", type: "seconds", description: "seconds between samples" }],
  },
  diagnose: { findings: [], rules: 12 },
  samples: { pid: PID, running: true, period_ns: 1e8, samples_taken: 1, lost: {}, folded: [], bursts: [] },
  backtrace: {
    pid: PID,
    threads: [{ tid: PID, name: "MainThread", state: "running", has_gil: true, wait: "", frames: [FRAME], tasks: [] }],
  },
  processes: {
    processes: [{ pid: 99, command: "python idle.py", job: null, rank: null, probed: false, cpu_percent: 0, rss: 1e7, doing: null }],
  },
  profile: {
    period_ns: 1e7,
    samples_taken: 1,
    lost: {},
    threads: [{ tid: PID, name: "MainThread" }],
    frames: [FRAME],
    stacks: [[], [0]],
    samples: { weight: [3], thread: [0], stack: [1], on_cpu: [true], has_gil: [true], start_ns: [0] },
  },
  query: ROWS,
};
// What a page shows once it has answers.
const SHOWN: Record<string, string> = {
  overview: ".facts",
  memory: ".asked",
  profile: "table.ops",
  stacks: ".thread",
  flame: "canvas.flame[data-boxes]",
  training: ".facts",
  timeline: "canvas.timeline",
  stalls: ".stall",
  system: "figure.chart",
  cluster: ".rank, .state.empty",
  query: ".past",
  tables: "[role=option]",
  console: ".console",
  settings: ".setting",
};

const asked: string[] = [];

// fetch() as the server would answer it.
async function answer(input: URL | string, options?: RequestInit): Promise<Response> {
  const url = new URL(input);
  const route = url.pathname.split("/").pop() ?? "";
  asked.push(`${options?.method ?? "GET"} ${route} ${options?.body ?? ""}`);
  if (route === "events") {
    const queries = JSON.parse(url.searchParams.get("queries") ?? "{}");
    const results = Object.fromEntries(Object.keys(queries).map((name) => [name, ROWS]));
    const text = `event: targets\ndata: ${JSON.stringify(ANSWERS.targets)}\n\nevent: results\ndata: ${JSON.stringify(results)}\n\n`;
    return new Response(text, { headers: { "Content-Type": "text/event-stream" } });
  }
  if (!(route in ANSWERS)) throw new Error(`nobody answers ${route}`);
  return new Response(JSON.stringify(ANSWERS[route]), { headers: { "Content-Type": "application/json" } });
}

// Charts draw on a canvas, which takes anything and shows nothing here.
const canvas: unknown = new Proxy(() => {}, {
  get: (_, name) => (name === "measureText" ? () => ({ width: 8 }) : canvas),
  apply: () => canvas,
  set: () => true,
});

let complaints: MockInstance;

beforeEach(() => {
  asked.length = 0;
  vi.stubGlobal("fetch", answer);
  vi.stubGlobal("Path2D", class {
    rect() {}
  });
  vi.spyOn(HTMLCanvasElement.prototype, "getContext").mockImplementation((() => canvas) as never);
  vi.stubGlobal("WebSocket", class extends EventTarget {
    close() {}
  });
  complaints = vi.spyOn(console, "error");
  targets.list = LISTED;
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
  document.body.replaceChildren();
});

async function open(name: string, address = "", target: number | null = PID) {
  location.hash = `#/${name}?${address}`;
  const root = document.createElement("div");
  document.body.append(root);
  const stop = new AbortController();
  const { signal } = stop;
  const live: PageContext["live"] = (task, every, place) =>
    poll(task, { every, signal, failed: (error) => place?.fail(error) });
  const page = PAGES.find((each) => each.name === name);
  const { mount } = await page!.load();
  const range = { seconds: 300 };
  mount({ root, params: new URLSearchParams(address), target, job: null, range, signal, live } as never);
  return { root, stop };
}

test.each(PAGES.map(({ name }) => name))("%s shows what the server answers", async (name) => {
  const { root, stop } = await open(name);
  await vi.waitFor(() => expect(root.querySelector(SHOWN[name]), root.textContent ?? "").not.toBeNull(), 5000);
  expect(root.querySelector(".failure")?.textContent).toBeUndefined();
  expect(complaints).not.toHaveBeenCalled();
  stop.abort();
});

test("what stands in an address is not run before somebody says so", async () => {
  const { root, stop } = await open("query", "q=SELECT+42");
  await vi.waitFor(() => expect(root.querySelector(".past")).not.toBeNull());
  await new Promise((done) => setTimeout(done, 50));
  expect(asked.filter((each) => each.includes("SELECT 42"))).toEqual([]);
  const run = [...root.querySelectorAll("button")].find((each) => each.textContent === "Run");
  run?.click();
  await vi.waitFor(() => expect(asked.filter((each) => each.includes("SELECT 42")).length).toBe(1));
  stop.abort();
});

test("a link changes no setting of a process", async () => {
  ANSWERS.samples = { ...ANSWERS.samples, running: false };
  const { root, stop } = await open("flame", "live=1");
  await vi.waitFor(() => expect(root.textContent).toContain("not sampled"));
  expect(asked.filter((each) => each.startsWith("POST config"))).toEqual([]);
  stop.abort();
});

test("a process without a probe has a button that puts one in, and its findings lead to pages", async () => {
  const finding = { class: "hang", severity: "error", ranks: [], pids: [PID], job: null, evidence: "waits", next: "" };
  ANSWERS.diagnose = { findings: [finding], rules: 12 };
  ANSWERS.inject = { pid: 99, version: "1", held_us: 40 };
  const { root, stop } = await open("overview", "", null);
  await vi.waitFor(() => expect(root.querySelector(".job-card .finding a")).not.toBeNull(), 5000);
  expect(root.querySelector(".job-card .state-badge")?.textContent).toBe("Hung");
  expect(root.querySelector<HTMLAnchorElement>(".job-card .finding a")?.hash).toBe(`#/stacks?target=${PID}`);
  await vi.waitFor(() => expect(root.querySelector(".unprobed button")).not.toBeNull(), 5000);
  root.querySelector<HTMLButtonElement>(".unprobed button")?.click();
  await vi.waitFor(() => expect(asked).toContain('POST inject {"target":99}'));
  ANSWERS.diagnose = { findings: [], rules: 12 };
  stop.abort();
});

test("a flame graph of a time that is over changes nothing and records nothing", async () => {
  const { root, stop } = await open("flame", "stall=1767225600000000000");
  await vi.waitFor(() => expect(asked.some((each) => each.includes("timestamp_ns = 1767225600000000000"))).toBe(true));
  await vi.waitFor(() => expect(root.querySelector(".loading")).toBeNull());
  expect(asked.filter((each) => /POST (profile|config)/.test(each))).toEqual([]);
  stop.abort();
});

test("where stalls are not watched for, the page says so and offers it", async () => {
  ANSWERS.query = { ...ROWS, rows: [] };
  const settings = [{ name: "probing.stalls.limit", value: "0", default: "0", type: "seconds", description: "" }];
  const before = ANSWERS.config;
  ANSWERS.config = { settings };
  vi.stubGlobal("fetch", async (input: URL | string, options?: RequestInit) => {
    if (!String(input).includes("events")) return answer(input, options);
    const text = `event: results\ndata: ${JSON.stringify({ stalls: { ...ROWS, rows: [] } })}\n\n`;
    return new Response(text, { headers: { "Content-Type": "text/event-stream" } });
  });
  const { root, stop } = await open("stalls");
  await vi.waitFor(() => expect(root.textContent).toContain("Stalls are not watched for"));
  const watch = [...root.querySelectorAll("button")].find((each) => each.textContent === "Watch for stalls");
  watch?.click();
  await vi.waitFor(() => expect(asked).toContain('POST config {"set":{"probing.stalls.limit":0.05}}'));
  ANSWERS.query = ROWS;
  ANSWERS.config = before;
  stop.abort();
});
