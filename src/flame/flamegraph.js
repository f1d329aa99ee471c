"use strict";
// The script inside of the SVG: zoom, search, tooltip line. The picture is complete without it.
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
  const details = document.getElementById("details");
  const matched = document.getElementById("matched");
  const reset = document.getElementById("reset");
  const search = document.getElementById("search");

  function place(frame, x, w) {
    frame.rect.setAttribute("x", left + x);
    frame.rect.setAttribute("width", w);
    frame.text.setAttribute("x", left + x + 3);
    const room = Math.floor((w - 6) / 7);
    const label = frame.label;
    frame.text.textContent = room < 3 ? "" : room < label.length ? label.slice(0, room - 2) + ".." : label;
  }

  // Shows what is below and above `focus`; its callers get the whole width.
  function zoom(focus) {
    const end = focus.start + focus.ticks;
    for (const frame of frames) {
      const inside = frame.start >= focus.start && frame.start + frame.ticks <= end && frame.depth >= focus.depth;
      const caller = frame.depth < focus.depth && frame.start <= focus.start && frame.start + frame.ticks >= end;
      frame.g.style.display = inside || caller ? "" : "none";
      frame.g.style.opacity = caller ? 0.5 : "";
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
      frame.rect.setAttribute("fill", hit ? "#e600e6" : frame.rect.getAttribute("data-c"));
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
    frame.rect.setAttribute("data-c", frame.rect.getAttribute("fill"));
    frame.g.addEventListener("click", () => zoom(frame));
    frame.g.addEventListener("mouseover", () => { details.textContent = frame.title; });
    frame.g.addEventListener("mouseout", () => { details.textContent = ""; });
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
