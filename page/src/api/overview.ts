/** What `/api/session`, `/api/overview` and `/api/points` answer, and the messages of the event stream. */

import type { Counts, Mark, Metric, NodeName, RunState, Scored } from "./names";

export interface Progress {
  what: string;
  done: number;
  total: number;
}

export interface Session {
  version: string;
  task: string;
  runs: { run: number; started_at: number; state: RunState; nodes: number; why: string }[];
  run: number | null;
  actions: string[];
  now: number;
  event: number;
  fold: Progress & { ready: boolean };
}

export interface Pool {
  pool: string;
  used: number;
  limit: number | null;
  left: number | null;
  unit: "usd" | "trials" | "seconds" | "tokens";
  rate_per_hour: number | null;
  forecast_used: number | null;
  ends_at: number | null;
  changed: boolean;
}

export interface Running {
  trial: string;
  node: NodeName | null;
  pool: string;
  operator: string;
  since: number;
  phase: string;
  low_percent: number | null;
  high_percent: number | null;
  progress: number | null;
  last_line: string;
  row: Record<string, number> | null;
  step: number | null;
  model: string;
  tokens: number | null;
}

export interface AlertRow {
  kind:
    | "lost"
    | "stalled"
    | "held"
    | "benched"
    | "budget"
    | "baseline"
    | "paused"
    | "tampered"
    | "awaited"
    | "audit";
  level: "bad" | "warn" | "info";
  text: string;
  node: NodeName | null;
  at: number | null;
  remedy: string;
}

export interface Check {
  name: "uplift" | "held-out" | "pairs" | "integrity";
  state: "pass" | "fail" | "missing";
  text: string;
  detail: string;
}

export interface Step {
  handle: number;
  order: number;
  at: number;
  cost: number;
  score: number;
  gain_percent: number | null;
}

export interface ControlStep {
  order: number;
  at: number;
  cost: number;
  score: number;
}

export interface Gain {
  best: Scored | null;
  baseline: Scored | null;
  control: Scored | null;
  before: { node: string; score: number } | null;
  noise: { sigma: number } | null;
  factor: number | null;
  factor_low: number | null;
  factor_high: number | null;
  /** The gain as a terminal says it. */
  words: string;
}

export interface Cost {
  money_usd: number;
  tokens: number;
  unpriced_calls: number;
  ends_first: { pool: string; at: number | null; in_seconds: number | null } | null;
  pools: Pool[];
  roles: {
    role: string;
    model: string;
    calls: number;
    tokens: number;
    money_usd: number;
    seconds: number;
    cap_usd: number | null;
    cap_tokens: number | null;
  }[];
  per_kept_usd: number | null;
  burn: { at: number; money_usd: number; tokens: number; attempts: number }[];
}

export interface Goodput {
  results: number;
  per_hour: number | null;
  per_million_tokens: number | null;
  busy_seconds: number;
  trial_slots_busy: number | null;
  model_slots_busy: number | null;
  refused: number;
  time: { cause: string; trials: number; seconds: number }[];
}

export interface Slots {
  trials: number;
  busy: number;
  questions: number;
  asking: number;
}

export interface Ended {
  node: NodeName;
  mark: Mark;
  gain_percent: number | null;
  score: number | null;
  operator: string;
  at: number;
  reason: string;
}

/** What tune mode's slice costs, and how well it predicts the whole benchmark. */
export interface Tuning {
  slice: string;
  tuned: number;
  moved: number;
  trials: number;
  seconds: number;
  share: number | null;
  prediction: { value: number | null; low: number | null; high: number | null; count: number } | null;
  advice: string;
}

/** The nodes of another run that this one combines. */
export interface Combination {
  run: number;
  members: { node: NodeName; score: number | null; reason: string }[];
}

export interface Overview {
  run: number;
  event: number;
  now: number;
  state: RunState;
  reason: string;
  task: string;
  metric: Metric;
  started_at: number;
  elapsed_seconds: number;
  directive: string;
  criteria: string;
  integrity: "strong" | "weak" | null;
  driver: string;
  alerts: AlertRow[];
  gain: Gain;
  version_lead: { node: NodeName; text: string } | null;
  real: { verdict: "yes" | "in part" | "not shown" | "too early"; checks: Check[] };
  uplift: {
    words: string;
    amount: number;
    pairs: number;
    won: number;
    lost: number;
    chance: number;
  } | null;
  cost: Cost;
  counts: Counts;
  nodes: number;
  since_best: number;
  steps: Step[];
  control_steps: ControlStep[];
  now_running: Running[];
  slots: Slots;
  just_ended: Ended[];
  worked: { node: NodeName; gain_percent: number | null; at: number; operator: string }[];
  goodput: Goodput;
  tuning: Tuning | null;
  combines: Combination | null;
  combined_by: number[];
  phase: { name: "baseline" | "confirmation"; step: number; steps: number | null } | null;
  budget: Record<string, number | null>;
}

export type Axis = "experiment" | "time" | "cost";
export type Point = [handle: number, x: number, score: number | null, mark: Mark, id: string];
/** For each mark across, down and count of its cells, one after the other; down is -1 without a score. */
export type Cells = Partial<Record<Mark, number[]>>;
export type Cell = [cx: number, cy: number, mark: Mark, count: number];

export const hasCells = (cells: Cells): boolean => Object.keys(cells).length > 0;

export function* eachCell(cells: Cells): Generator<Cell> {
  for (const [mark, flat] of Object.entries(cells) as [Mark, number[]][]) {
    for (let at = 0; at + 2 < flat.length; at += 3) {
      yield [flat[at] as number, flat[at + 1] as number, mark, flat[at + 2] as number];
    }
  }
}

export interface Points {
  run: number;
  event: number;
  x: Axis;
  metric: Metric;
  w: number;
  h: number;
  x_range: [number, number];
  y_range: [number, number];
  points: Point[];
  cells: Cells;
  outliers: Point[];
  counts: Counts;
}

/** One row of the `nodes` message. */
export type NodeRow = [
  handle: number,
  order: number,
  at: number,
  cost: number,
  score: number | null,
  mark: Mark,
  id: string,
  parent: number | null,
  summary: string,
  operator: string,
];

export interface NodesMessage {
  event: number;
  run: number;
  nodes: NodeRow[];
  counts: Counts;
}

export interface NowMessage {
  event: number;
  now: number;
  running: Running[];
  slots: Slots;
}
