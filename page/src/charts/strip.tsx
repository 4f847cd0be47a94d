/** All tries from one node as a strip: left of the line worse than the node, right better; without a score far left. */

import type { JSX } from "preact";
import type { Mark } from "../api/names";
import type { Log, LogRow } from "../api/tables";
import { colourOf, Glyph } from "../parts/marks";
import { count, plural } from "../text/numbers";
import { linear } from "./scale";

export const STRIP_WIDTH = 380;
const LEFT = 96;
const HEIGHT = 40;
const STACK: Mark[] = ["kept", "held", "open", "inconclusive", "version", "control", "pruned", "discarded"];

export const stripX = (log: Pick<Log, "lo" | "hi">): ((bin: number) => number) => {
  const x = linear([0, 64], [LEFT, STRIP_WIDTH - 6]);
  return (bin) => x(bin + 0.5) + 0 * log.lo;
};

/** Where "no change" stands in the strip. */
export const stripZero = (log: Pick<Log, "lo" | "hi">): number =>
  linear([log.lo, log.hi], [LEFT, STRIP_WIDTH - 6])(0);

type Column = { bin: number; marks: [Mark, number][]; total: number };

export function columns(strip: LogRow["strip"], hidden: ReadonlySet<Mark>): Column[] {
  const by = new Map<number, Column>();
  for (const [bin, mark, many] of strip) {
    if (hidden.has(mark)) continue;
    const column = by.get(bin) ?? { bin, marks: [], total: 0 };
    by.set(bin, column);
    column.marks.push([mark, many]);
    column.total += many;
  }
  for (const column of by.values()) column.marks.sort((a, b) => STACK.indexOf(a[0]) - STACK.indexOf(b[0]));
  return [...by.values()];
}

export function Strip({ row, log, hidden }: { row: LogRow; log: Log; hidden: ReadonlySet<Mark> }): JSX.Element {
  const x = stripX(log);
  const zero = stripZero(log);
  const lost: [Mark, number, number][] = [
    ["failed", row.no_score.failed, 10],
    ["rejected", row.no_score.rejected, 52],
  ];
  return (
    <svg
      viewBox={`0 0 ${STRIP_WIDTH} ${HEIGHT}`}
      width={STRIP_WIDTH}
      height={HEIGHT}
      role="img"
      aria-label={plural(row.tries, "try from here", "tries from here")}
    >
      <line x1={zero} x2={zero} y1={3} y2={HEIGHT - 3} stroke="var(--line-strong)" />
      {lost.map(([mark, many, at]) =>
        many && !hidden.has(mark) ? (
          <g key={mark}>
            <Glyph mark={mark} x={at} y={HEIGHT / 2} r={4} />
            <text x={at + 8} y={HEIGHT / 2 + 4}>
              {count(many)}
            </text>
          </g>
        ) : null,
      )}
      {columns(row.strip, hidden).map((column) => (
        <ColumnMarks key={column.bin} column={column} x={x(column.bin)} />
      ))}
    </svg>
  );
}

function ColumnMarks({ column, x }: { column: Column; x: number }): JSX.Element {
  if (column.total > 5) return <ColumnBar column={column} x={x} />;
  const list = column.marks.flatMap(([mark, many]) => Array<Mark>(many).fill(mark));
  const gap = Math.min(6, (HEIGHT - 6) / list.length);
  const top = HEIGHT / 2 - ((list.length - 1) * gap) / 2;
  return (
    <g>
      {list.map((mark, index) => (
        <Glyph key={index} mark={mark} x={x} y={top + index * gap} r={mark === "kept" ? 4 : 3.6} />
      ))}
    </g>
  );
}

/** Too many for marks: a bar a verdict, its height the logarithm of how many. */
function ColumnBar({ column, x }: { column: Column; x: number }): JSX.Element {
  const full = Math.min(HEIGHT - 4, 8 + Math.log2(column.total) * 4.2);
  let y = HEIGHT / 2 - full / 2;
  return (
    <g>
      {column.marks.map(([mark, many]) => {
        const tall = (many / column.total) * full;
        const at = y;
        y += tall;
        return (
          <rect
            key={mark}
            x={x - 1.9}
            y={at}
            width={3.8}
            height={Math.max(1, tall - 0.6)}
            rx={1.2}
            fill={colourOf(mark)}
            opacity={mark === "discarded" || mark === "control" ? 0.6 : 0.85}
          />
        );
      })}
    </g>
  );
}
