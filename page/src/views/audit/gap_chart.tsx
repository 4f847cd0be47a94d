/** Each look as two points, the gain in the search and on held-out data, joined by the gap. */

import type { JSX } from "preact";
import type { AuditRow } from "../../api/tables";
import { extent, linear, padded, tickPlaces, ticks } from "../../charts/scale";
import { Glyph } from "../../parts/marks";
import { useWidth } from "../../parts/size";
import { scoreText } from "../../text/axis";
import { share } from "../../text/numbers";

const HEIGHT = 220;

export function GapChart({ rows }: { rows: AuditRow[] }): JSX.Element {
  const [box, width] = useWidth<HTMLDivElement>(600);
  const values = rows
    .flatMap((row) => [row.search_gain, row.held_out_gain])
    .filter((value): value is number => value !== null);
  const range = padded(extent([0, ...values]) ?? [0, 1], 0.08);
  const x = linear([0.5, rows.length + 0.5], [56, width - 16]);
  const y = linear(range, [HEIGHT - 26, 12]);
  const marks = ticks(range[0], range[1], 5);
  const digits = tickPlaces(marks);
  const label = rows.map((row) => `look ${row.look}: ${share(row.survives)} survives`).join("; ");
  return (
    <div ref={box}>
      <svg class="chart" viewBox={`0 0 ${width} ${HEIGHT}`} height={HEIGHT} role="img" aria-label={label}>
        {marks.map((value) => (
          <g key={value}>
            <line class="axis" x1={48} x2={width - 8} y1={y(value)} y2={y(value)} />
            <text x={42} y={y(value) + 4} text-anchor="end">
              {scoreText(value, digits)}
            </text>
          </g>
        ))}
        {rows.map((row, index) => {
          const at = x(index + 1);
          return (
            <g key={`${row.look} ${row.node.id}`}>
              {row.search_gain !== null && row.held_out_gain !== null && (
                <line
                  x1={at}
                  x2={at}
                  y1={y(row.search_gain)}
                  y2={y(row.held_out_gain)}
                  stroke="var(--failed)"
                  stroke-width={2}
                  stroke-dasharray="3 3"
                />
              )}
              {row.search_gain !== null && (
                <circle
                  cx={at}
                  cy={y(row.search_gain)}
                  r={4.5}
                  fill="var(--surface)"
                  stroke="var(--ink-3)"
                  stroke-width={1.8}
                />
              )}
              {row.held_out_gain !== null && <Glyph mark="kept" x={at} y={y(row.held_out_gain)} r={5} />}
              <text x={at} y={HEIGHT - 8} text-anchor="middle">
                {row.look}
              </text>
            </g>
          );
        })}
      </svg>
      <div class="legend names">
        <span class="row">
          <svg class="mark" viewBox="0 0 12 12" aria-hidden="true">
            <circle cx={6} cy={6} r={4} fill="var(--surface)" stroke="var(--ink-3)" stroke-width={1.8} />
          </svg>
          in the search
        </span>
        <span class="row">
          <svg class="mark" viewBox="0 0 12 12" aria-hidden="true">
            <Glyph mark="kept" x={6} y={6} r={4.4} />
          </svg>
          on held-out data
        </span>
      </div>
    </div>
  );
}
