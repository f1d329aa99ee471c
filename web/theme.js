// Before the first paint, so that nobody's eyes are hit by the other theme: a script of its own, not a module.
(function () {
  let choice = "auto";
  try {
    choice = JSON.parse(localStorage.getItem("probing.theme")) || "auto";
  } catch {
    // Storage may be forbidden; then the system decides.
  }
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = choice === "auto" ? (dark ? "dark" : "light") : choice;
})();
