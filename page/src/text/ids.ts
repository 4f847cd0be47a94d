/** Node ids, cut by whole segments: the last ones matter most. */

export function shortId(id: string, room = 14): string {
  if (id.length <= room) return id;
  const parts = id.split(".");
  let tail = parts.pop() ?? id;
  while (parts.length > 1) {
    const next = parts[parts.length - 1] ?? "";
    if ((parts[0] ?? "").length + 1 + next.length + 1 + tail.length > room) break;
    parts.pop();
    tail = `${next}.${tail}`;
  }
  return parts.length ? `${parts[0]}…${tail}` : tail;
}

/** The end of an id that a person types to confirm. */
export function idEnd(id: string): string {
  return id.split(".").slice(-2).join(".");
}
