import { defineConfig } from "vite";

// The flame graph of the page as one script and one style, for `probing flamegraph -o x.html` (src/flame).
export default defineConfig({
  publicDir: false,
  build: {
    target: "es2022",
    outDir: "../build/flame_page",
    emptyOutDir: false,
    cssCodeSplit: false,
    lib: { entry: "src/flame_file.ts", formats: ["iife"], name: "flame", fileName: () => "flame.js", cssFileName: "flame" },
  },
});
