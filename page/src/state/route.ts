/** Where the page is: views live behind the hash, so that a node id with dots never looks like a file. */

import { signal } from "@preact/signals";

export type ViewName = "overview" | "tree" | "compare" | "parameters" | "operators" | "agents" | "audit" | "node";

export interface Route {
  view: ViewName;
  rest: string[];
  query: URLSearchParams;
}

export const VIEWS: { name: Exclude<ViewName, "node">; label: string; key: string }[] = [
  { name: "overview", label: "Overview", key: "o" },
  { name: "tree", label: "Tree", key: "t" },
  { name: "compare", label: "Compare", key: "c" },
  { name: "parameters", label: "Parameters", key: "p" },
  { name: "operators", label: "Operators", key: "r" },
  { name: "agents", label: "Agents", key: "a" },
  { name: "audit", label: "Audit", key: "u" },
];

const NAMES = new Set<string>([...VIEWS.map((view) => view.name), "node"]);

export function parseRoute(hash: string): Route {
  const [path = "", tail = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [head = "", ...rest] = path.split("/").map(decodeSafely);
  return { view: (NAMES.has(head) ? head : "overview") as ViewName, rest, query: new URLSearchParams(tail) };
}

function decodeSafely(word: string): string {
  try {
    return decodeURIComponent(word);
  } catch {
    return word;
  }
}

export const route = signal<Route>(parseRoute(globalThis.location?.hash ?? ""));

export function link(view: ViewName, rest: string[] = [], query: Record<string, string> = {}): string {
  const path = [view, ...rest.map(encodeURIComponent)].join("/");
  const tail = new URLSearchParams(query).toString();
  return `#/${path}${tail ? `?${tail}` : ""}`;
}

export const nodeLink = (id: string): string => link("node", [id]);

export function go(to: string): void {
  location.hash = to;
}

export function watchRoute(): void {
  addEventListener("hashchange", () => {
    route.value = parseRoute(location.hash);
  });
}
