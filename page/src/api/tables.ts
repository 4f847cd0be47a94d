/** What the tree, the parameters, the operators, the agents, the audit and the search answer. */

import type { Counts, Mark, Metric, NodeName } from "./names";

export interface LogRow {
  id: string;
  handle: number;
  parent: string | null;
  parents: { id: string; handle: number }[];
  lane: number;
  fold: number;
  summary: string;
  operator: string;
  pool: string;
  at: number;
  score: number | null;
  gain_percent: number | null;
  best: boolean;
  on_best_path: boolean;
  mark: Mark;
  tries: number;
  no_score: { failed: number; rejected: number; pruned: number };
  open: number;
  strip: [bin: number, mark: Mark, count: number][];
}

export interface Log {
  run: number;
  event: number;
  total: number;
  next: number | null;
  lo: number;
  hi: number;
  rows: LogRow[];
}

export interface MapNode {
  id: string;
  handle: number;
  parent: string | null;
  merged: string[];
  mark: Mark;
  pool: string;
  score: number | null;
  summary: string;
  on_best_path: boolean;
  kept_children: number;
  others: Counts;
  hidden: number;
}

export interface TreeMap {
  run: number;
  event: number;
  nodes: MapNode[];
  total: number;
}

export interface Parameter {
  name: string;
  kind: "number" | "category";
  log: boolean;
  values: unknown[];
  low: number | null;
  high: number | null;
  share: number | null;
  share_low: number | null;
  share_high: number | null;
  trials: number;
  told: boolean;
  best_tenth: string;
  best_low: unknown;
  best_high: unknown;
}

export interface ParameterLine {
  handle: number;
  id: string;
  mark: Mark;
  score: number;
  values: unknown[];
  tenth: boolean;
}

export interface Parameters {
  run: number;
  event: number;
  metric: Metric;
  results: number;
  fewest: number;
  parameters: Parameter[];
  tenth: number;
  lines: ParameterLine[];
}

export interface Operator {
  name: string;
  pool: string;
  nodes: number;
  kept: number;
  failed: number;
  rejected: number;
  inconclusive: number;
  refused: number;
  bests: number;
  gain_percent: number;
  seconds: number;
  tokens: number;
  money_usd: number;
  calls: number;
  rate_low: number | null;
  rate: number | null;
  rate_high: number | null;
  last_at: number;
  credit: { order: number; at: number; kept: number; nodes: number; gain_percent: number }[];
}

export interface Operators {
  run: number;
  event: number;
  operators: Operator[];
  rung: string;
}

export interface Agent {
  name: string;
  agent: string;
  model: string;
  state: "asking" | "measuring" | "idle" | "stalled" | "benched";
  heartbeat: number | null;
  lane: [from: number, to: number, kind: "asks" | "runs" | "stalled"][];
  nodes: number;
  kept: number;
  tokens: number;
  money_usd: number;
  stall_rate: number;
  stalls: Record<string, number>;
  benched_until: number | null;
  bench_reason: string;
}

export interface Agents {
  run: number;
  event: number;
  now: number;
  agents: Agent[];
  models: {
    name: string;
    roles: string[];
    calls: number;
    cached: number;
    failed: number;
    refused: number;
    median_seconds: number | null;
    tokens: number;
    money_usd: number;
    unpriced: number;
    in_flight: number;
  }[];
  refused: { reason: string; count: number }[];
  machines: {
    fingerprint: string;
    text: string;
    present: boolean;
    results: number;
    noise_percent: number | null;
  }[];
  host: { cores: number; load: number; disk_free_bytes: number; slots: number; busy: number };
}

export interface AuditRow {
  node: NodeName;
  at: number;
  search_gain: number | null;
  held_out: number | null;
  held_out_gain: number | null;
  survives: number | null;
  ended: string;
  look: number;
  flags: { kind: string; words: string }[];
}

export interface Audit {
  run: number;
  event: number;
  has_split: boolean;
  looks: number;
  many_looks: number;
  rows: AuditRow[];
  held: { node: NodeName; score: number | null; gain_percent: number | null; reason: string; at: number }[];
  withdrawn: { node: NodeName; verdict: string; why: string; at: number }[];
  expected_false_keeps: number | null;
  kept: number;
  flaw: string;
  integrity: { strong: number; weak: number };
}

export interface Hit {
  id: string;
  handle: number;
  run: number;
  summary: string;
  mark: Mark;
  score: number | null;
  operator: string;
  at: number;
  where: string;
}

export interface Found {
  q: string;
  total: number;
  hits: Hit[];
}
