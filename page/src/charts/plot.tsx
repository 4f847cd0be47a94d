/** The frame of a small chart: as wide as its place, with a sentence for those who do not see it. */

import type { ComponentChildren, JSX, Ref } from "preact";
import type { Scale } from "./scale";

interface Frame {
  box: Ref<HTMLDivElement>;
  width: number;
  height: number;
  label: string;
  children: ComponentChildren;
}

export function Plot({ box, width, height, label, children }: Frame): JSX.Element {
  return (
    <div ref={box}>
      <svg class="chart" viewBox={`0 0 ${width} ${height}`} height={height} role="img" aria-label={label}>
        {children}
      </svg>
    </div>
  );
}

/** Lines across at these values, each with its text on the left. */
export function Levels({
  marks,
  y,
  right,
  text,
}: {
  marks: number[];
  y: Scale;
  right: number;
  text(value: number): string;
}): JSX.Element {
  return (
    <g>
      {marks.map((value) => (
        <g key={value}>
          <line class="axis" x1={40} x2={right} y1={y(value)} y2={y(value)} />
          <text x={34} y={y(value) + 4} text-anchor="end">
            {text(value)}
          </text>
        </g>
      ))}
    </g>
  );
}
