/** Beyond 1,500 experiments: cells of 4 px, darker where there are more; those without a score as columns in their lane. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { Mark } from "../api/names";
import { eachCell, hasCells, type Points } from "../api/overview";
import { colourOf } from "../parts/marks";

const CELL = 4;
const SHADES = 5;

interface Props {
  points: Points;
  hidden: ReadonlySet<Mark>;
  left: number;
  top: number;
  /** The plot as it is drawn; the cells were folded for the size that was asked for. */
  width: number;
  height: number;
  laneTop: number;
  laneHeight: number;
}

/** One path for each pair of verdict and shade. */
export function shades(
  points: Points,
  hidden: ReadonlySet<Mark>,
): { mark: Mark; opacity: number; path: string }[] {
  let most = 1;
  for (const [, cy, , count] of eachCell(points.cells)) if (cy >= 0) most = Math.max(most, count);
  const by = new Map<string, string[]>();
  for (const [cx, cy, mark, count] of eachCell(points.cells)) {
    if (cy < 0 || hidden.has(mark)) continue;
    const shade = Math.min(SHADES - 1, Math.floor((Math.log(count) / Math.log(most + 1)) * SHADES));
    const key = `${mark} ${shade}`;
    const list = by.get(key) ?? [];
    if (!by.has(key)) by.set(key, list);
    list.push(`M${cx * CELL} ${cy * CELL}h3.5v3.5h-3.5z`);
  }
  return [...by].map(([key, list]) => {
    const [mark, shade] = key.split(" ") as [Mark, string];
    return { mark, opacity: 0.25 + (0.7 * Number(shade)) / (SHADES - 1), path: list.join("") };
  });
}

function laneColumns({ points, hidden, laneTop, laneHeight }: Props): { mark: Mark; path: string }[] {
  const totals = new Map<number, number>();
  const lane = [...eachCell(points.cells)].filter(([, cy, mark]) => cy < 0 && !hidden.has(mark));
  for (const [cx, , , count] of lane) totals.set(cx, (totals.get(cx) ?? 0) + count);
  const full = Math.max(1, ...totals.values());
  const used = new Map<number, number>();
  const by = new Map<Mark, string[]>();
  for (const [cx, , mark, count] of lane) {
    const below = used.get(cx) ?? 0;
    const tall = (count / full) * laneHeight;
    used.set(cx, below + tall);
    const list = by.get(mark) ?? [];
    if (!by.has(mark)) by.set(mark, list);
    list.push(`M${cx * CELL} ${laneTop + laneHeight - below - tall}h3.2v${tall}h-3.2z`);
  }
  return [...by].map(([mark, list]) => ({ mark, path: list.join("") }));
}

export function Density(props: Props): JSX.Element | null {
  const { points, hidden, left, top, width, height, laneTop, laneHeight } = props;
  const drawn = useMemo(
    () => ({ cells: shades(points, hidden), lane: laneColumns(props) }),
    [points, hidden, laneTop, laneHeight],
  );
  if (!hasCells(points.cells)) return null;
  const across = width / (points.w || 1);
  return (
    <>
      <g transform={`translate(${left} ${top}) scale(${across} ${height / (points.h || 1)})`}>
        {drawn.cells.map(({ mark, opacity, path }) => (
          <path key={`${mark}${opacity}`} d={path} fill={colourOf(mark)} opacity={opacity} />
        ))}
      </g>
      <g transform={`translate(${left} 0) scale(${across} 1)`}>
        {drawn.lane.map(({ mark, path }) => (
          <path key={mark} d={path} fill={colourOf(mark)} />
        ))}
      </g>
    </>
  );
}
