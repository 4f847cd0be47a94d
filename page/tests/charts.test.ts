import assert from "node:assert/strict";
import { test } from "node:test";
import type { Points } from "../src/api/overview";
import type { MapNode, Parameter } from "../src/api/tables";
import { shades } from "../src/charts/density";
import { placeRows } from "../src/charts/lanes";
import { layout } from "../src/charts/map_layout";
import { sureFrom } from "../src/charts/pairs";
import { logMarks, standing } from "../src/charts/parameters";
import { tickPlaces, ticks } from "../src/charts/scale";
import { columns } from "../src/charts/strip";
import { addRows } from "../src/views/overview/points";
import { freshRows, mergeRows } from "../src/views/tree/log_rows";

test("ticks are round, and never endless", () => {
  assert.deepEqual(ticks(0, 100, 4), [0, 25, 50, 75, 100]);
  assert.deepEqual(ticks(5, 5, 4), [5]);
  assert.equal(tickPlaces([0, 0.25]), 2);
  assert.equal(tickPlaces([0, 20]), 0);
});

test("the best path keeps lane 0, side branches take free lanes and give them back", () => {
  const row = (id: string, parent: string | null, on: boolean) => ({ id, parent, on_best_path: on });
  const { at, wide } = placeRows([
    row("1.2.1", "1.2", true),
    row("1.3.1", "1.3", false),
    row("1.2", "1", true),
    row("1.3", "1", false),
    row("1", null, true),
  ]);
  assert.equal(at.get("1.2.1")?.lane, 0);
  assert.equal(at.get("1.3.1")?.lane, 1);
  assert.equal(at.get("1.3")?.lane, 1);
  assert.equal(at.get("1.3.1")?.up, "1.3");
  assert.equal(wide, 2);
});

test("an ancestor that is not drawn is skipped", () => {
  const { at } = placeRows([
    { id: "1.4.2.1", parent: "1.4.2", on_best_path: false },
    { id: "1", parent: null, on_best_path: true },
  ]);
  assert.equal(at.get("1.4.2.1")?.up, "1");
});

const mapNode = (id: string, parent: string | null, on = false): MapNode => ({
  id,
  handle: 1,
  parent,
  merged: [],
  mark: "kept",
  score: 1,
  summary: "",
  pool: "attempt",
  on_best_path: on,
  kept_children: 0,
  others: {},
  hidden: 0,
});

test("the map puts the best path on the first line and bears a very long chain", () => {
  const nodes = [
    mapNode("1", null, true),
    mapNode("1.1", "1"),
    mapNode("1.2", "1", true),
    mapNode("1.1.1", "1.1"),
  ];
  const { places } = layout(nodes, () => false);
  assert.equal(places.get("1.2")?.y, 0);
  assert.ok((places.get("1.1")?.y ?? 0) > 0);
  assert.equal(layout(nodes, (id) => id === "1.1").places.has("1.1.1"), false);
  const chain = Array.from({ length: 30_000 }, (_, index) =>
    mapNode(String(index), index ? String(index - 1) : null),
  );
  assert.equal(layout(chain, () => false).places.size, 30_000);
});

test("the interval is above zero only from where it stays there", () => {
  const at = (low: number | null) => ({ amount: 1, low, high: 2 });
  assert.equal(sureFrom([at(null), at(0.1), at(-0.1), at(0.2), at(0.3)]), 4);
  assert.equal(sureFrom([at(null), at(-1)]), 0);
});

const points: Points = {
  run: 1,
  event: 5,
  x: "experiment",
  metric: { name: "s", direction: "max" },
  w: 100,
  h: 100,
  x_range: [1, 3],
  y_range: [0, 10],
  points: [
    [1, 1, 5, "kept", "1"],
    [2, 2, null, "open", "1.1"],
  ],
  cells: {},
  outliers: [],
  counts: {},
};

test("new nodes join the chart, changed ones replace themselves", () => {
  const next = addRows(
    points,
    [
      [2, 2, 0, 0, 11, "kept", "1.1", 1, "", ""],
      [3, 9, 0, 0, 999, "held", "1.2", 1, "", ""],
    ],
    0,
  );
  assert.equal(next?.points.length, 3);
  assert.deepEqual(next?.x_range, [1, 9]);
  assert.ok((next?.y_range[1] ?? 0) < 20, "a held result does not squeeze the others");
  assert.equal(addRows({ ...points, cells: { failed: [0, 0, 2] } }, [], 0), null);
});

test("cells of one verdict and shade are one path; the lane is apart", () => {
  const drawn = shades(
    {
      ...points,
      cells: { discarded: [0, 0, 1, 1, 0, 1, 2, 0, 90], failed: [3, -1, 4] },
    },
    new Set(),
  );
  assert.equal(drawn.length, 2);
});

test("columns of a strip count by verdict, kept on top", () => {
  const [column] = columns(
    [
      [3, "discarded", 4],
      [3, "kept", 1],
    ],
    new Set(),
  );
  assert.deepEqual(column?.marks, [
    ["kept", 1],
    ["discarded", 4],
  ]);
  assert.equal(columns([[3, "kept", 1]], new Set(["kept"])).length, 0);
});

const parameter = (over: Partial<Parameter>): Parameter => ({
  name: "p",
  kind: "number",
  log: false,
  values: [],
  low: 1,
  high: 9,
  share: null,
  share_low: null,
  share_high: null,
  trials: 0,
  told: false,
  best_tenth: "",
  best_low: null,
  best_high: null,
  ...over,
});

test("values stand where their axis has them", () => {
  assert.equal(standing(parameter({}), 5), 0.5);
  assert.equal(standing(parameter({ low: 1, high: 100, log: true }), 10), 0.5);
  assert.equal(standing(parameter({ kind: "category", values: ["a", "b"] }), "b"), 0.75);
  assert.equal(standing(parameter({}), null), null);
  assert.deepEqual(logMarks(16, 1024), [16, 64, 256, 1024]);
});

test("rows of the log are merged by time, an opened branch in its place", () => {
  const row = (id: string, at: number, fold = 0) => ({
    id,
    handle: at,
    parent: null,
    parents: [],
    lane: 0,
    fold,
    summary: "",
    operator: "",
    pool: "attempt",
    at,
    score: 1,
    gain_percent: 1,
    best: false,
    on_best_path: false,
    mark: "kept" as const,
    tries: 0,
    no_score: { failed: 0, rejected: 0, pruned: 0 },
    open: 0,
    strip: [],
  });
  const page = { run: 1, event: 1, total: 3, next: null, lo: 0, hi: 1, rows: [row("c", 9), row("a", 3, 1)] };
  const branch = { ...page, rows: [row("b", 5)] };
  const merged = mergeRows([page], new Map([["a", branch]]));
  assert.deepEqual(
    merged.map((one) => one.id),
    ["c", "b", "a"],
  );
  assert.equal(merged[2]?.fold, 0);
  assert.equal(freshRows(page, { ...page, rows: [row("d", 12), ...page.rows] }), 1);
});
