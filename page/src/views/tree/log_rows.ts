/** Rows of the log: pages one below the other, opened side branches in their place. */

import type { Log, LogRow } from "../../api/tables";

/** Newest first, each node once; rows of an opened branch stand by their own time. */
export function mergeRows(pages: Log[], branches: ReadonlyMap<string, Log>): LogRow[] {
  const by = new Map<string, LogRow>();
  for (const page of pages) for (const row of page.rows) by.set(row.id, row);
  for (const [id, branch] of branches) {
    const head = by.get(id);
    if (head) by.set(id, { ...head, fold: 0 });
    for (const row of branch.rows) if (!by.has(row.id)) by.set(row.id, row);
  }
  return [...by.values()].sort((a, b) => b.at - a.at || b.handle - a.handle);
}

/** How many rows of the newer answer the older one lacks. */
export function freshRows(older: Log, newer: Log): number {
  const known = new Set(older.rows.map((row) => row.id));
  return newer.rows.filter((row) => !known.has(row.id)).length;
}
