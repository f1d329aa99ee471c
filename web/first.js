// Before all else: a script of its own, not a module, since modules wait for each other.

// The theme before the first paint, so that nobody's eyes are hit by the other one.
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

// The page of the address comes together with the frame around it, not after: app.js finds it loaded. What
// cannot be had is told there.
import(`./pages/${/^#\/(\w+)/.exec(location.hash)?.[1] ?? "overview"}.js`).catch(() => {});
