// What the page shows is in its address: #/stacks?target=123&native=1. A link is the whole state.

export function parseHash(hash) {
  const match = /^#?\/?([^?]*)(?:\?(.*))?$/.exec(hash) ?? [];
  return { page: match[1] || "overview", params: new URLSearchParams(match[2] ?? "") };
}

export function makeHash(page, params) {
  const text = new URLSearchParams([...params].filter(([, value]) => value !== "")).toString();
  return `#/${page}${text ? `?${text}` : ""}`;
}

export function current() {
  return parseHash(location.hash);
}

// Links to other pages keep the target and drop what belongs to this page.
export function link(page, more = {}) {
  const { params } = current();
  const kept = new URLSearchParams();
  if (params.get("target")) kept.set("target", params.get("target"));
  for (const [name, value] of Object.entries(more)) kept.set(name, String(value));
  return makeHash(page, kept);
}

// Changes parameters without a new entry in the history and without mounting the page again.
export function setParams(changes) {
  const { page, params } = current();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "" || value === false) params.delete(name);
    else params.set(name, value === true ? "1" : String(value));
  }
  history.replaceState(null, "", makeHash(page, params));
}

// Choices that belong to the reader and not to the link.
export function remember(name, value) {
  try {
    localStorage.setItem(`probing.${name}`, JSON.stringify(value));
  } catch {
    // Private windows may refuse; then it is forgotten with the page.
  }
}

export function remembered(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(`probing.${name}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}
