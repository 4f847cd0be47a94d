/** The points of the chart: one answer for an axis and a size, then added to by what the stream brings. */

import { useEffect, useState } from "preact/hooks";
import { address } from "../../api/client";
import { type Axis, hasCells, type NodeRow, type Point, type Points } from "../../api/overview";
import { useQuery } from "../../state/query";
import { newest, shownRun } from "../../state/store";

const onAxis = (row: NodeRow, axis: Axis, points: Points, started: number): number => {
  if (axis === "experiment") return row[1];
  if (axis === "cost") return row[3];
  return points.x_range[0] > 1e8 || !started ? row[2] : row[2] - started;
};

/** The answer with the new rows in it; null: it has cells, so that the server must fold anew. */
export function addRows(points: Points, rows: NodeRow[], started: number): Points | null {
  if (hasCells(points.cells)) return null;
  const by = new Map<number, Point>(points.points.map((point) => [point[0], point]));
  let [low, high] = points.x_range;
  for (const row of rows) {
    const x = onAxis(row, points.x, points, started);
    by.set(row[0], [row[0], x, row[4], row[5], row[6]]);
    low = Math.min(low, x);
    high = Math.max(high, x);
  }
  let [bottom, top] = points.y_range;
  for (const row of rows) {
    const score = row[4];
    // A result that waits for a person may be absurd: it must not squeeze all others.
    if (score === null || row[5] === "held" || row[5] === "rejected" || row[5] === "failed") continue;
    const span = top - bottom || 1;
    if (row[5] === "kept" || Math.abs(score - (top + bottom) / 2) < span) {
      if (score > top) top = score + span * 0.05;
      if (score < bottom) bottom = score - span * 0.05;
    }
  }
  return { ...points, points: [...by.values()], x_range: [low, high], y_range: [bottom, top] };
}

export function usePoints(axis: Axis, width: number, height: number, started: number): Points | null {
  const path = width > 0 ? address("/api/points", { run: shownRun.value, x: axis, w: width, h: height }) : null;
  const isDense = useState(false);
  const { data } = useQuery<Points>(path, { every: isDense[0] ? 5 : 60 });
  const [shown, setShown] = useState<Points | null>(null);
  const message = newest.value;
  useEffect(() => {
    // While the next answer is on its way, the last one stays.
    if (data) setShown(data);
    isDense[1](!!data && hasCells(data.cells));
  }, [data]);
  useEffect(() => {
    if (!message) return;
    setShown((old) =>
      old && message.run === old.run && message.event > old.event
        ? (addRows(old, message.nodes, started) ?? old)
        : old,
    );
  }, [message]);
  return shown?.x === axis ? shown : null;
}
