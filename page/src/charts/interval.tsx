/** Effects with their intervals: a small forest, and one interval in a cell of a table. */

import type { JSX } from "preact";
import type { Change } from "../api/names";
import { useWidth } from "../parts/size";
import { Plot } from "./plot";
import { clamp, linear, padded } from "./scale";

export interface Effects {
  name: string;
  low: number;
  middle: number;
  high: number;
  text: string;
  isHeld?: boolean;
}

/** The ends of a change in percent; without an interval both are the change itself. */
export function percentEnds(change: Pick<Change, "amount" | "percent" | "low" | "high"> | null): [number, number] {
  const percent = change?.percent ?? 0;
  const scale = change?.amount ? percent / change.amount : 0;
  const [low, high] = [change?.low, change?.high].map((end) =>
    end === null || end === undefined ? percent : end * scale,
  );
  return [Math.min(low ?? 0, high ?? 0), Math.max(low ?? 0, high ?? 0)];
}

export function tone(low: number, high: number): string {
  return low > 0 ? "var(--kept)" : high < 0 ? "var(--failed)" : "var(--ink-3)";
}

export function Forest({ rows }: { rows: Effects[] }): JSX.Element {
  const [box, width] = useWidth<HTMLDivElement>(320);
  const rowHeight = 28;
  const height = rows.length * rowHeight + 22;
  const range = padded(
    [Math.min(0, ...rows.map((row) => row.low)), Math.max(0, ...rows.map((row) => row.high))],
    0.08,
  );
  const x = linear(range, [104, width - 104]);
  return (
    <Plot box={box} width={width} height={height} label={rows.map((row) => `${row.name} ${row.text}`).join("; ")}>
      <line x1={x(0)} x2={x(0)} y1={0} y2={height - 18} stroke="var(--ink-3)" stroke-dasharray="3 3" />
      <text x={x(0)} y={height - 4} text-anchor="middle">
        no change
      </text>
      {rows.map((row, index) => {
        const y = 13 + index * rowHeight;
        const colour = row.isHeld ? "var(--held)" : tone(row.low, row.high);
        return (
          <g key={row.name}>
            <text x={0} y={y + 4}>
              {row.name}
            </text>
            <rect
              x={x(row.low)}
              y={y - 6}
              width={Math.max(3, x(row.high) - x(row.low))}
              height={12}
              rx={2}
              fill={colour}
              opacity={0.25}
            />
            <path d={`M${x(row.low)} ${y - 6}v12M${x(row.high)} ${y - 6}v12`} stroke={colour} stroke-width={1.6} />
            <circle cx={x(row.middle)} cy={y} r={4} fill={colour} />
            <text class="strong" x={width} y={y + 4} text-anchor="end">
              {row.text}
            </text>
          </g>
        );
      })}
    </Plot>
  );
}

const WIDE = 150;
const EDGE = 10;

/** One interval in percent, cut at ± 10, with an arrow where it goes on. */
export function IntervalCell({ low, middle, high }: { low: number; middle: number; high: number }): JSX.Element {
  const x = (value: number): number => linear([-EDGE, EDGE], [8, WIDE - 8])(clamp(value, -EDGE, EDGE));
  const colour = tone(low, high);
  return (
    <svg width={WIDE} height={18} viewBox={`0 0 ${WIDE} 18`} aria-hidden="true">
      <path d={`M0 9H${WIDE}`} stroke="var(--line)" />
      <path d={`M${WIDE / 2} 1V17`} stroke="var(--ink-3)" stroke-dasharray="2 2" />
      {Math.abs(middle) > EDGE ? (
        <path
          d={middle > 0 ? `M${WIDE - 10} 4L${WIDE - 2} 9L${WIDE - 10} 14Z` : "M10 4L2 9L10 14Z"}
          fill={colour}
        />
      ) : (
        <g>
          <rect
            x={x(low)}
            y={4}
            width={Math.max(3, x(high) - x(low))}
            height={10}
            rx={2}
            fill={colour}
            opacity={0.28}
          />
          <circle cx={x(middle)} cy={9} r={3.6} fill={colour} />
        </g>
      )}
    </svg>
  );
}
