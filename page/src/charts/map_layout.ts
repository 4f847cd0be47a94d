/** Places of the map: the best path is the straight first line, other branches hang below it. */

import type { MapNode } from "../api/tables";

export const COLUMN = 116;
export const LINE = 30;
/** Below the best path, whose tries stand under it. */
const UNDER_BEST = 12;

export interface Place {
  node: MapNode;
  x: number;
  y: number;
}

export interface Layout {
  places: Map<string, Place>;
  width: number;
  height: number;
}

export function layout(nodes: MapNode[], isFolded: (id: string) => boolean): Layout {
  const children = new Map<string, MapNode[]>();
  const known = new Set(nodes.map((node) => node.id));
  const roots: MapNode[] = [];
  for (const node of nodes) {
    if (node.parent !== null && known.has(node.parent)) {
      const list = children.get(node.parent) ?? [];
      children.set(node.parent, list);
      list.push(node);
    } else roots.push(node);
  }
  const size = sizes(nodes, children);
  const places = new Map<string, Place>();
  let line = -1;
  // A stack instead of recursion: a chain of a thousand gains must not exhaust the browser's.
  const todo: { node: MapNode; column: number; line: number | null }[] = roots
    .map((node) => ({ node, column: 0, line: null }))
    .reverse();
  while (todo.length) {
    const next = todo.pop();
    if (!next) break;
    let at = next.line;
    if (at === null) {
      line += 1;
      at = line;
    }
    places.set(next.node.id, { node: next.node, x: next.column * COLUMN, y: at * LINE + (at ? UNDER_BEST : 0) });
    if (isFolded(next.node.id)) continue;
    const below = [...(children.get(next.node.id) ?? [])].sort(
      (a, b) => Number(b.on_best_path) - Number(a.on_best_path) || (size.get(b.id) ?? 0) - (size.get(a.id) ?? 0),
    );
    const [first, ...others] = below;
    for (const child of others.reverse()) todo.push({ node: child, column: next.column + 1, line: null });
    if (first) todo.push({ node: first, column: next.column + 1, line: at });
  }
  const all = [...places.values()];
  return {
    places,
    width: Math.max(0, ...all.map((place) => place.x)) + COLUMN,
    height: (line + 1) * LINE + UNDER_BEST,
  };
}

function sizes(nodes: MapNode[], children: Map<string, MapNode[]>): Map<string, number> {
  const size = new Map<string, number>();
  // Breadth first from the server: a child always comes after its parent.
  for (const node of [...nodes].reverse())
    size.set(
      node.id,
      1 + (children.get(node.id) ?? []).reduce((sum, child) => sum + (size.get(child.id) ?? 1), 0),
    );
  return size;
}
