// What the page shows is in its address: #/stacks?target=123&native=1. A link is the whole state.
import type { Changes } from "../types/page";

export function parseHash(hash: string) {
  const match = /^#?\/?([^?]*)(?:\?(.*))?$/.exec(hash) ?? [];
  return { page: match[1] || "overview", params: new URLSearchParams(match[2] ?? "") };
}

export function makeHash(page: string, params: URLSearchParams): string {
  const text = new URLSearchParams([...params].filter(([, value]) => value !== "")).toString();
  return `#/${page}${text ? `?${text}` : ""}`;
}

export function current() {
  return parseHash(location.hash);
}

// Who is looked at, and a time that was chosen.
const KEPT = ["target", "job", "from", "to"];

// Links to other pages keep these and drop what belongs to this page.
export function link(page: string, more: Changes = {}): string {
  const { params } = current();
  const kept = new URLSearchParams();
  for (const name of KEPT) {
    const value = params.get(name);
    if (value) kept.set(name, value);
  }
  for (const [name, value] of Object.entries(more)) kept.set(name, String(value));
  if ("target" in more) kept.delete("job");
  if ("job" in more) kept.delete("target");
  return makeHash(page, kept);
}

// Changes parameters without a new entry in the history and without mounting the page again.
export function setParams(changes: Changes) {
  const { page, params } = current();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "" || value === false) params.delete(name);
    else params.set(name, value === true ? "1" : String(value));
  }
  history.replaceState(null, "", makeHash(page, params));
}

// Seconds since the epoch, of what somebody has drawn over in a chart.
export function chooseRange(from: number, to: number): void {
  const { page, params } = current();
  for (const name of ["seconds", "minutes"]) params.delete(name);
  params.set("from", String(Math.round(from * 1000)));
  params.set("to", String(Math.round(to * 1000)));
  location.hash = makeHash(page, params);
}

// Choices that belong to the reader and not to the link.
export function remember(name: string, value: unknown): void {
  try {
    localStorage.setItem(`probing.${name}`, JSON.stringify(value));
  } catch {
    // Private windows may refuse; then it is forgotten with the page.
  }
}

export function remembered<T>(name: string, otherwise: T): T {
  try {
    return JSON.parse(localStorage.getItem(`probing.${name}`) ?? "null") ?? otherwise;
  } catch {
    return otherwise;
  }
}
