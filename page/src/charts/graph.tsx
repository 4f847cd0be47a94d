/** The gutter of the log, drawn like a commit graph: newest on top, the best path straight and bold. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { LogRow } from "../api/tables";
import { Glyph } from "../parts/marks";
import { placeRows } from "./lanes";

const LANE = 16;
const MOST_LANES = 8;

export function useLanes(rows: LogRow[]): { at: ReturnType<typeof placeRows>["at"]; width: number } {
  return useMemo(() => {
    const { at, wide } = placeRows(rows);
    return { at, width: Math.min(wide, MOST_LANES) * LANE + 14 };
  }, [rows]);
}

interface Props {
  rows: LogRow[];
  at: ReturnType<typeof placeRows>["at"];
  width: number;
  rowHeight: number;
}

export function Graph({ rows, at, width, rowHeight }: Props): JSX.Element {
  const x = (id: string): number => 14 + Math.min(at.get(id)?.lane ?? 0, MOST_LANES - 1) * LANE;
  const y = (id: string): number => (at.get(id)?.row ?? 0) * rowHeight + rowHeight / 2;
  const edge = (from: string, to: string): string => {
    const [a, b, end] = [x(from), x(to), y(to)];
    if (a === b) return `M${a} ${y(from)}V${end}`;
    return `M${a} ${y(from)}V${end - rowHeight * 0.7}C${a} ${end - 8} ${b} ${end - 18} ${b} ${end}`;
  };
  const edges = rows.flatMap((row) => {
    const up = at.get(row.id)?.up;
    return up ? [{ row, path: edge(row.id, up) }] : [];
  });
  const further = rows.flatMap((row) =>
    row.parents
      .filter(({ id }) => at.has(id) && y(id) > y(row.id))
      .map(({ id }) => ({ key: `${row.id} ${id}`, path: edge(row.id, id) })),
  );
  return (
    <svg class="gutter" width={width} height={rows.length * rowHeight} aria-hidden="true">
      {further.map(({ key, path }) => (
        <path key={key} class="edge also" d={path} />
      ))}
      {[false, true].map((isOn) =>
        edges
          .filter(({ row }) => row.on_best_path === isOn)
          .map(({ row, path }) => <path key={row.id} class={`edge ${isOn ? "on" : ""}`} d={path} />),
      )}
      {rows.map((row) => (
        <g key={row.id}>
          {row.best && (
            <circle
              cx={x(row.id)}
              cy={y(row.id)}
              r={9}
              fill="var(--surface)"
              stroke="var(--kept)"
              stroke-width={2}
            />
          )}
          <Glyph mark={row.mark} x={x(row.id)} y={y(row.id)} r={row.on_best_path ? 5.5 : 4} />
        </g>
      ))}
    </svg>
  );
}
