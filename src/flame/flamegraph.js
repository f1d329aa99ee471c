"use strict";
// The script inside of the SVG: zoom, search, classes in the legend, tooltip line. The picture is complete without it.
(function () {
  const svg = document.documentElement;
  const frames = Array.from(svg.querySelectorAll("g.f"), (g) => ({
    g: g,
    rect: g.querySelector("rect"),
    text: g.querySelector("text"),
    title: g.querySelector("title").textContent,
    label: g.getAttribute("data-l"),
    start: Number(g.getAttribute("data-x")),
    ticks: Number(g.getAttribute("data-w")),
    depth: Number(g.getAttribute("data-d")),
  }));
  const left = Number(svg.getAttribute("data-left"));
  const width = Number(svg.getAttribute("data-width"));
  const total = Number(svg.getAttribute("data-total")) || 1;
  const character = Number(svg.getAttribute("data-char"));
  const details = document.getElementById("details");
  const matched = document.getElementById("matched");
  const reset = document.getElementById("reset");
  const search = document.getElementById("search");

  // As svg.cc does it: characters of Asia take two columns.
  function fitting(label, w) {
    const room = Math.floor(w / character);
    if (room < 5) return "";
    let used = 0;
    let cut = 0;
    let at = 0;
    for (const one of label) {
      if (used + 2 <= room) cut = at;
      used += one.codePointAt(0) >= 0x1000 ? 2 : 1;
      if (used > room) return label.slice(0, cut) + "..";
      at += one.length;
    }
    return label;
  }

  function place(frame, x, w) {
    frame.rect.setAttribute("x", left + x);
    frame.rect.setAttribute("width", w);
    frame.text.setAttribute("x", left + x + 3);
    frame.text.textContent = fitting(frame.label, w - 6);
  }

  // Shows what is below and above `focus`; its callers get the whole width.
  function zoom(focus) {
    const end = focus.start + focus.ticks;
    for (const frame of frames) {
      const inside = frame.start >= focus.start && frame.start + frame.ticks <= end && frame.depth >= focus.depth;
      const caller = frame.depth < focus.depth && frame.start <= focus.start && frame.start + frame.ticks >= end;
      frame.g.style.display = inside || caller ? "" : "none";
      frame.g.classList.toggle("caller", caller);
      if (inside) place(frame, ((frame.start - focus.start) / focus.ticks) * width, (frame.ticks / focus.ticks) * width);
      if (caller) place(frame, 0, width);
    }
    reset.style.display = focus.depth === 0 ? "none" : "";
  }

  function find(word) {
    let pattern = null;
    try {
      pattern = word ? new RegExp(word) : null;
    } catch (error) {
      matched.textContent = "not a regular expression";
      return;
    }
    let sum = 0;
    let covered = -1; // what matches inside of a match counts once; frames come callers first
    for (const frame of frames) {
      const hit = pattern !== null && frame.depth > 0 && pattern.test(frame.label);
      frame.g.classList.toggle("hit", hit);
      if (hit && frame.start >= covered) {
        sum += frame.ticks;
        covered = frame.start + frame.ticks;
      }
    }
    matched.textContent = pattern === null ? "" : "matched: " + ((100 * sum) / total).toFixed(2) + "%";
  }

  function ask() {
    const word = window.prompt("Search for (a regular expression):", "");
    if (word !== null) find(word);
  }

  for (const frame of frames) {
    frame.g.addEventListener("click", () => zoom(frame));
    frame.g.addEventListener("mouseover", () => { details.textContent = fitting(frame.title.replace("\n", "  "), width); });
    frame.g.addEventListener("mouseout", () => { details.textContent = ""; });
  }
  // A click in the legend makes the frames of a class faint, another one brings them back.
  for (const entry of svg.querySelectorAll("g.legend")) {
    const of = (frame) => Array.from(frame.g.classList).some((name) => name.replace(/\d+$/, "") === entry.dataset.class);
    entry.addEventListener("click", () => {
      const off = entry.classList.toggle("off");
      for (const frame of frames.filter(of)) frame.g.classList.toggle("off-class", off);
    });
  }
  reset.addEventListener("click", () => zoom(frames[0]));
  search.addEventListener("click", ask);
  window.addEventListener("keydown", (event) => {
    if (event.key === "F3" || ((event.ctrlKey || event.metaKey) && event.key === "f")) {
      event.preventDefault();
      ask();
    }
    if (event.key === "Escape") {
      find("");
      zoom(frames[0]);
    }
  });
})();
