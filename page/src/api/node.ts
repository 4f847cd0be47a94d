/** What `/api/node/ID` and its parts answer, and `/api/compare`. */

import type {
  Before,
  Change,
  Counts,
  Direction,
  FileChange,
  Mark,
  Metric,
  NodeName,
  RunState,
  Scored,
  Verdict,
} from "./names";
import type { Combination } from "./overview";

export interface NodeMetric {
  name: string;
  direction: Direction | null;
  value: number;
  low: number;
  high: number;
  baseline: number | null;
  over_baseline: Change | null;
  noise: number;
  counts: boolean;
  parent: number | null;
  over_parent: Change | null;
  over_best: Change | null;
}

export interface Pairs {
  incumbent: NodeName;
  metric: string;
  rows: { mine: number; theirs: number }[];
  running: { amount: number; low: number | null; high: number | null }[];
  faults: number;
}

export interface Effect {
  amount: number;
  pairs: number;
  error_rate: number;
}

/** How a node came to its parameters: they were tuned on a slice before its attempt. */
export interface Tuned {
  slice: string;
  trials: number;
  reason: string;
  proposed_score: number | null;
  score: number | null;
  proposed: Record<string, unknown>;
}

export interface NodeDetail {
  id: string;
  handle: number;
  run: number;
  event: number;
  path: NodeName[];
  parent: NodeName | null;
  merged: NodeName[];
  inspirations: NodeName[];
  children: { kept: NodeName[]; count: number };
  next: string | null;
  previous: string | null;
  next_kept: string | null;
  previous_kept: string | null;
  verdict: Verdict | null;
  mark: Mark;
  reason: string;
  against: NodeName | null;
  added_at: number;
  pool: string;
  operator: string;
  author: string;
  surface: string;
  parent_reason: string;
  summary: string;
  params: Record<string, unknown>;
  changed_params: Record<string, unknown>;
  tuned: Tuned | null;
  combines: Combination | null;
  edits: string[];
  draft: boolean;
  running: boolean;
  files_removed: boolean;
  is_best: boolean;
  set_aside: string;
  edited: boolean;
  replays: { at: number; ending: string; score: number | null }[];
  commit: string;
  outcome: {
    ending: string;
    seconds: number;
    error_lines: string[];
    integrity: "strong" | "weak" | null;
    unenforced: string[];
    fingerprint: string;
  } | null;
  explanation: string;
  metrics: NodeMetric[];
  over_parent: { change: Change } | null;
  effect: Effect | null;
  effect_percent: number | null;
  pairs: Pairs | null;
  confirmation: Pairs | null;
  gates: { name: string; text: string; passed: boolean | null; detail: string }[];
  review: { passed: boolean | null; reason: string } | null;
  machine: string;
  other_machine: string;
  audit: { survives: number | null; held_out: number | null; at: number }[];
  withdrawn: { verdict: string | null; reason: string; why: string } | null;
  cost: { calls: number; tokens: number; money_usd: number };
  logs: { name: string; bytes: number }[];
  traces: { task: string; score: number | null; bytes: number }[];
  has_curve: boolean;
  calls: string[];
  actions: string[];
}

export interface Diff {
  against: NodeName;
  patch: string;
  cut: number;
  files: FileChange[];
  params: Record<string, Before>;
}

export interface Call {
  call: string;
  role: string;
  model: string;
  operator: string;
  at: number;
  seconds: number | null;
  tokens: number;
  money_usd: number;
  failure: string;
  prompt: string;
  reply: string;
  cut: number;
  led_to: NodeName[];
  refused: string[];
}

export interface LogPart {
  name: string;
  from: number;
  to: number;
  size: number;
  text: string;
  running: boolean;
}

export interface Trace {
  task: string;
  text: string;
  cut: number;
}

export interface Curve {
  columns: string[];
  directions: Record<string, Direction>;
  rows: number[][];
  parent: number[][];
}

export interface Side extends NodeName {
  run: number;
  score: number | null;
  half: number | null;
  measurements: number;
  operator: string;
  mark: Mark;
  fingerprint: string;
  cost_usd: number;
  at: number;
}

export interface Comparison {
  a: Side;
  b: Side;
  ancestor: NodeName | null;
  comparable: boolean;
  why_not: string;
  sentence: string;
  metrics: {
    name: string;
    direction: Direction | null;
    a: number | null;
    b: number | null;
    change: Change | null;
    verdict: "better" | "worse" | "same" | "unknown";
    exact: boolean;
  }[];
  params: Record<string, Before>;
  files: FileChange[];
  patch: string;
  cut: number;
}

export interface RunSide {
  run: number;
  state: RunState;
  why: string;
  started_at: number;
  elapsed_seconds: number;
  metric: Metric;
  baseline: number | null;
  best: Scored | null;
  counts: Counts;
  nodes: number;
  tokens: number;
  money_usd: number;
  per_hour: number | null;
  uplift: string;
  machine: string;
  proposers: string[];
  curve: { order: number; at: number; cost: number; score: number }[];
}

export interface RunComparison {
  a: RunSide;
  b: RunSide;
  comparable: boolean;
  differs: string[];
  sentence: string;
}
