// The theme before the first paint, so that nobody's eyes are hit by the other one. index.html lets the
// script block the paint; it is small, and pages come after it.
import { remembered } from "./lib/state";

const choice = remembered("theme", "auto");
const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
document.documentElement.dataset.theme = choice === "auto" ? (isDark ? "dark" : "light") : choice;
