import { defineConfig } from "vitest/config";

// The theme is chosen before anything is painted: Vite leaves out attributes that it does not know.
const blocking = {
  name: "blocking-script",
  transformIndexHtml: (html: string) =>
    html.replace('<script type="module" crossorigin', '<script type="module" blocking="render"'),
};

declare const process: { env: Record<string, string | undefined> };

// `npm run dev`: the page from here, its data from a probingd that runs (`probing serve`).
const probingd = process.env.PROBING_SITE ?? "http://127.0.0.1:3344";
const proxy = {
  "/api": {
    target: probingd,
    ws: true,
    changeOrigin: true,
    rewriteWsOrigin: true,
    headers: { origin: probingd },
  },
};

export default defineConfig({
  base: "./", // the page may lie below a path of somebody's proxy
  plugins: [blocking],
  server: { proxy },
  preview: { proxy },
  build: {
    target: "es2022",
    outDir: "../build/web",
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0, // nothing inline: the security policy forbids it
  },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
