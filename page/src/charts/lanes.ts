/** Lanes of the log: the best path is lane 0, a side branch takes the first free one. */

export interface LaneRow {
  id: string;
  parent: string | null;
  on_best_path: boolean;
}

export interface Placed {
  lane: number;
  row: number;
  /** The nearest ancestor that is drawn below, if any. */
  up: string | null;
}

/** Rows come newest first; an ancestor that is not among them is looked for further up by its id. */
export function placeRows(rows: LaneRow[]): { at: Map<string, Placed>; wide: number } {
  const drawn = new Map(rows.map((row) => [row.id, row]));
  const waits: (string | null)[] = [null];
  const at = new Map<string, Placed>();
  rows.forEach((row, index) => {
    const lane = row.on_best_path ? 0 : laneOf(waits, row.id);
    for (let k = 1; k < waits.length; k += 1) if (waits[k] === row.id && k !== lane) waits[k] = null;
    const up = drawnAncestor(row, drawn);
    at.set(row.id, { lane, row: index, up });
    waits[lane] = up;
  });
  return { at, wide: Math.max(0, ...[...at.values()].map((place) => place.lane)) + 1 };
}

function laneOf(waits: (string | null)[], id: string): number {
  for (let k = 1; k < waits.length; k += 1) if (waits[k] === id) return k;
  for (let k = 1; k < waits.length; k += 1) if (!waits[k]) return k;
  return waits.length;
}

function drawnAncestor(row: LaneRow, drawn: Map<string, LaneRow>): string | null {
  let id = row.parent;
  while (id) {
    if (drawn.has(id)) return id;
    const cut = id.lastIndexOf(".");
    id = cut < 0 ? null : id.slice(0, cut);
  }
  return null;
}
