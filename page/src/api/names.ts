/** The nouns that every answer of the server shares. */

export type Verdict = "kept" | "discarded" | "inconclusive" | "rejected" | "quarantined" | "held";

/** How a node is drawn; "open" has no verdict yet. */
export type Mark =
  | "kept"
  | "discarded"
  | "inconclusive"
  | "pruned"
  | "failed"
  | "rejected"
  | "held"
  | "control"
  | "version"
  | "open";

export type Direction = "max" | "min";

export type RunState =
  | "running"
  | "paused"
  | "stopped"
  | "interrupted"
  | "by hand"
  | "not started"
  | "empty"
  | "confirming"
  | "measuring baseline"
  | "stalled";

export interface Change {
  amount: number;
  percent: number | null;
  low: number | null;
  high: number | null;
  pairs: number;
  is_confirmed: boolean | null;
  by_clock?: Change | null;
}

export interface NodeName {
  id: string;
  handle: number;
  summary: string;
}

export interface Scored {
  node: string;
  handle: number;
  score: number;
  over_baseline: Change | null;
}

export interface Metric {
  name: string;
  direction: Direction;
}

export type Counts = Partial<Record<Mark, number>>;

/** What a parameter may hold; text of it is somebody else's. */
export type Value = string | number | boolean | null;
export type Before = { before: unknown; after: unknown };

export interface FileChange {
  path: string;
  added: number;
  removed: number;
}
