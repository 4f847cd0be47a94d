/** The judge's pairs: who was measured beside whom, and the interval as it narrows to a decision. */

import type { JSX } from "preact";
import type { Mark } from "../api/names";
import type { Pairs } from "../api/node";
import { Glyph } from "../parts/marks";
import { useWidth } from "../parts/size";
import { fixed, number } from "../text/numbers";
import { Plot } from "./plot";
import { clamp, extent, linear, padded, tickPlaces, ticks } from "./scale";

const ROW = 15;
const MOST_ROWS = 24;

export function Dumbbells({ pairs, mark }: { pairs: Pairs; mark: Mark }): JSX.Element {
  const [box, width] = useWidth<HTMLDivElement>(320);
  const rows = pairs.rows.slice(-MOST_ROWS);
  const skipped = pairs.rows.length - rows.length;
  const height = rows.length * ROW + 30;
  const range = padded(extent(rows.flatMap((row) => [row.mine, row.theirs])) ?? [0, 1]);
  const x = linear(range, [24, width - 10]);
  const marks = ticks(range[0], range[1], width > 300 ? 5 : 4);
  const places = tickPlaces(marks);
  return (
    <Plot
      box={box}
      width={width}
      height={height}
      label={`${pairs.rows.length} paired measurements of this node and the one it is held against`}
    >
      {marks.map((value) => (
        <g key={value}>
          <line class="axis" x1={x(value)} x2={x(value)} y1={0} y2={height - 26} />
          <text x={x(value)} y={height - 12} text-anchor="middle">
            {number(value, places)}
          </text>
        </g>
      ))}
      {rows.map((row, index) => {
        const y = 8 + index * ROW;
        return (
          <g key={index}>
            <text x={0} y={y + 4}>
              {skipped + index + 1}
            </text>
            <line
              x1={x(row.theirs)}
              x2={x(row.mine)}
              y1={y}
              y2={y}
              stroke="var(--line-strong)"
              stroke-width={1.5}
            />
            <circle
              cx={x(row.theirs)}
              cy={y}
              r={3.6}
              fill="var(--surface)"
              stroke="var(--ink-3)"
              stroke-width={1.6}
            />
            <Glyph mark={mark} x={x(row.mine)} y={y} r={4.4} />
          </g>
        );
      })}
    </Plot>
  );
}

/** The first pair from which the whole interval stays above zero; 0: it never does. */
export function sureFrom(running: Pairs["running"]): number {
  let from = 0;
  running.forEach((at, index) => {
    if (at.low !== null && at.low > 0) from = from || index + 1;
    else from = 0;
  });
  return from;
}

const TALL = 118;

export function Sequence({ pairs, mark }: { pairs: Pairs; mark: Mark }): JSX.Element | null {
  const [box, width] = useWidth<HTMLDivElement>(320);
  const { running } = pairs;
  const end = running[running.length - 1];
  if (!end) return <div ref={box} />;
  const bounded = running.filter((at) => at.low !== null && at.high !== null);
  // The first intervals are so wide that they would flatten all others: the scale is that of the later half.
  const later = bounded.slice(Math.floor(bounded.length / 2));
  const range = padded(
    extent([0, ...running.map((at) => at.amount), ...later.flatMap((at) => [at.low ?? 0, at.high ?? 0])]) ?? [
      -1, 1,
    ],
    0.15,
  );
  const x = linear([0.5, Math.max(running.length, 2) + 0.5], [40, width - 8]);
  const y = (value: number): number => linear(range, [TALL - 20, 8])(clamp(value, range[0], range[1]));
  const colour =
    mark === "held"
      ? "var(--held)"
      : (end.low ?? -1) > 0
        ? "var(--kept)"
        : (end.high ?? 1) < 0
          ? "var(--failed)"
          : "var(--ink-3)";
  const top = running.map((at, index) => `${x(index + 1)} ${y(at.high ?? range[1])}`);
  const bottom = running.map((at, index) => `${x(index + 1)} ${y(at.low ?? range[0])}`).reverse();
  const sure = sureFrom(running);
  const marks = ticks(range[0], range[1], 4);
  const digits = tickPlaces(marks);
  const every = Math.ceil(running.length / 12);
  return (
    <Plot
      box={box}
      width={width}
      height={TALL}
      label={`The gain and its interval after each pair; in the end ${fixed(end.amount, 1)} %`}
    >
      {marks.map((value) => (
        <g key={value}>
          <line
            x1={40}
            x2={width - 8}
            y1={y(value)}
            y2={y(value)}
            stroke={value ? "var(--line)" : "var(--ink-3)"}
            stroke-dasharray={value ? undefined : "3 3"}
          />
          <text x={34} y={y(value) + 4} text-anchor="end">
            {fixed(value, digits)} %
          </text>
        </g>
      ))}
      {running.map((_, index) =>
        index % every ? null : (
          <text key={index} x={x(index + 1)} y={TALL - 5} text-anchor="middle">
            {index + 1}
          </text>
        ),
      )}
      <path d={`M${[...top, ...bottom].join("L")}Z`} fill={colour} opacity={0.2} />
      <path
        d={`M${running.map((at, index) => `${x(index + 1)} ${y(at.amount)}`).join("L")}`}
        fill="none"
        stroke={colour}
        stroke-width={2}
      />
      {sure > 1 && (
        <g>
          <line x1={x(sure)} x2={x(sure)} y1={8} y2={TALL - 20} stroke="var(--ink-3)" stroke-dasharray="2 3" />
          <text
            class="halo"
            x={x(sure) + (sure > running.length * 0.6 ? -5 : 5)}
            y={17}
            text-anchor={sure > running.length * 0.6 ? "end" : "start"}
          >
            above zero from here
          </text>
        </g>
      )}
      <Glyph mark={mark} x={x(running.length)} y={y(end.amount)} r={4.5} />
    </Plot>
  );
}
