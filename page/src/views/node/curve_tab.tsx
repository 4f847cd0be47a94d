/** How its metrics grew while it ran, beside its parent's. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { Curve, NodeDetail } from "../../api/node";
import { LineNames, Lines, type Series } from "../../charts/lines";
import { Wait } from "../../parts/blocks";
import { useQuery } from "../../state/query";
import { count, figure } from "../../text/numbers";

/** Both curves on one list of steps; where one has no row, there is a gap. */
export function alignCurves(
  mine: number[][],
  parent: number[][],
  column: number,
): { x: number[]; mine: (number | null)[]; parent: (number | null)[] } {
  const of = (rows: number[][]): Map<number, number | null> =>
    new Map(rows.map((row) => [row[0] ?? 0, row[column] ?? null]));
  const [a, b] = [of(mine), of(parent)];
  const x = [...new Set([...a.keys(), ...b.keys()])].sort((left, right) => left - right);
  return { x, mine: x.map((step) => a.get(step) ?? null), parent: x.map((step) => b.get(step) ?? null) };
}

function CurvePlot({ curve, column, name }: { curve: Curve; column: number; name: string }): JSX.Element {
  const plot = useMemo(() => {
    const aligned = alignCurves(curve.rows, curve.parent, column);
    const series: Series[] = [{ name: "this node", colour: "kept", values: aligned.mine }];
    if (curve.parent.length)
      series.unshift({ name: "its parent", colour: "ink-3", values: aligned.parent, width: 1.5, isDashed: true });
    return { x: aligned.x, series };
  }, [curve, column]);
  return (
    <div class="parts">
      <h3>{name}</h3>
      <Lines
        x={plot.x}
        series={plot.series}
        height={180}
        label={`${name} over ${count(curve.rows.length)} rows`}
        xText={(value) => count(value)}
        yText={(value) => figure(value)}
      />
      <LineNames series={plot.series} />
    </div>
  );
}

export function CurveTab({ node }: { node: NodeDetail }): JSX.Element {
  const { data, error } = useQuery<Curve>(`/api/node/${encodeURIComponent(node.id)}/curve`, {
    every: node.running ? 2 : 0,
  });
  if (!data)
    return (
      <div class="panel">
        <Wait error={error} />
      </div>
    );
  return (
    <div class="panel grid">
      {data.columns.map((name, index) =>
        index ? <CurvePlot key={name} curve={data} column={index} name={name} /> : null,
      )}
    </div>
  );
}
