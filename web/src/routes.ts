// The pages, in the order of the menu. A page is mount(context) → nothing; see app.ts for the context.
// Icons are paths on a field of 24.
import type { Route } from "./types/page";

export const PAGES: Route[] = [
  {
    name: "overview",
    title: "Overview",
    load: () => import("./pages/overview"),
    icon: "M4 4h7v7H4zM13 4h7v4h-7zM13 10h7v10h-7zM4 13h7v7H4z",
    seconds: 300,
  },
  {
    name: "stacks",
    title: "Stacks",
    load: () => import("./pages/stacks"),
    icon: "M4 6h16M4 10h12M4 14h14M4 18h8",
    needsTarget: true,
  },
  {
    name: "flame",
    title: "Flame graph",
    load: () => import("./pages/flame"),
    icon: "M4 20h16v-4H4zM4 14h10v-4H4zM7 8h5V4H7zM16 14h4v-4h-4z",
    needsTarget: true,
    past: true,
  },
  {
    name: "training",
    title: "Training",
    load: () => import("./pages/training"),
    icon: "M4 4v16h16M7 9c3 6 6 7 12 8",
    seconds: 900,
  },
  {
    name: "timeline",
    title: "Timeline",
    load: () => import("./pages/timeline"),
    icon: "M4 6h6M8 11h9M6 16h4M14 16h6M4 20h16",
    seconds: 10,
  },
  {
    name: "stalls",
    title: "Stalls",
    load: () => import("./pages/stalls"),
    icon: "M12 4a8 8 0 1 1 0 16 8 8 0 0 1 0-16M12 8v5l3 2",
    seconds: 3600,
  },
  {
    name: "system",
    title: "System",
    load: () => import("./pages/system"),
    icon: "M3 13h4l3-8 4 14 3-9 1 3h3",
    seconds: 300,
  },
  {
    name: "memory",
    title: "Memory",
    load: () => import("./pages/memory"),
    icon: "M6 4h12v16H6zM9 8h6M9 12h6M9 16h3",
    needsTarget: true,
    needsProbe: true,
    seconds: 900,
  },
  {
    name: "profile",
    title: "Profile",
    load: () => import("./pages/profile"),
    icon: "M4 20V10M9 20V4M14 20v-8M19 20V7",
    needsTarget: true,
    needsProbe: true,
  },
  {
    name: "cluster",
    title: "Cluster",
    load: () => import("./pages/cluster"),
    icon: "M4 4h5v5H4zM15 4h5v5h-5zM4 15h5v5H4zM15 15h5v5h-5zM9 6.5h6M6.5 9v6M17.5 9v6M9 17.5h6",
  },
  {
    name: "query",
    title: "SQL",
    load: () => import("./pages/query"),
    icon: "M4 6c0-3 16-3 16 0v12c0 3-16 3-16 0zM4 6c0 3 16 3 16 0M4 12c0 3 16 3 16 0",
  },
  {
    name: "tables",
    title: "Tables",
    load: () => import("./pages/tables"),
    icon: "M4 5h16v14H4zM4 10h16M10 5v14",
  },
  {
    name: "console",
    title: "Console",
    load: () => import("./pages/console"),
    icon: "M4 5h16v14H4zM7 9l3 3-3 3M12 15h5",
    needsTarget: true,
    needsProbe: true,
  },
  {
    name: "settings",
    title: "Settings",
    load: () => import("./pages/settings"),
    icon: "M4 7h10M18 7h2M4 17h2M10 17h10M16 4v6M8 14v6",
  },
];

// An address that names none shows the first.
export function pageOf(name: string) {
  return PAGES.find((page) => page.name === name) ?? PAGES[0];
}
