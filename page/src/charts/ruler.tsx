/** Where baseline, control, the one before and the best stand, on one scale with the interval. */

import type { JSX } from "preact";
import type { Gain } from "../api/overview";
import { Glyph } from "../parts/marks";
import { useWidth } from "../parts/size";
import { number, times } from "../text/numbers";
import { Plot } from "./plot";
import { clamp } from "./scale";

const HEIGHT = 66;
const MIDDLE = 32;

interface Place {
  at: number;
  name: string;
  value: string;
}

/** Names above the line, from the left; one that would touch its neighbour is left out. */
export function spread(
  places: (Place & { x: number })[],
  width: number,
): (Place & { x: number; anchor: "start" | "middle" | "end" })[] {
  const shown: (Place & { x: number; anchor: "start" | "middle" | "end" })[] = [];
  let end = -99;
  for (const place of [...places].sort((a, b) => a.x - b.x)) {
    const wide = (place.name.length + place.value.length + 1) * 6.2;
    const anchor = place.x < wide / 2 ? "start" : place.x > width - wide / 2 ? "end" : "middle";
    const left = anchor === "start" ? place.x : anchor === "end" ? place.x - wide : place.x - wide / 2;
    if (left < end + 8) continue;
    end = left + wide;
    shown.push({ ...place, anchor });
  }
  return shown;
}

export function Ruler({ gain, places }: { gain: Gain; places: number }): JSX.Element | null {
  const [box, width] = useWidth<HTMLDivElement>(420);
  const base = gain.baseline?.score;
  const best = gain.best?.score;
  if (base === undefined || best === null || best === undefined || gain.factor === null) return <div ref={box} />;
  // All stand on the scale of scores, turned so that better is right.
  const turn = best >= base ? 1 : -1;
  const low = gain.factor_low !== null && gain.factor_low > 0 ? scoreAt(base, gain.factor_low, turn) : null;
  const high = gain.factor_high !== null && gain.factor_high > 0 ? scoreAt(base, gain.factor_high, turn) : null;
  const all = [base, best, gain.control?.score, gain.before?.score, low, high]
    .filter((value): value is number => value !== null && value !== undefined)
    .map((value) => value * turn);
  const from = Math.min(...all);
  const to = Math.max(...all);
  const x = (value: number): number => 3 + ((value * turn - from) / (to - from || 1)) * (width - 16);
  const above: (Place & { x: number })[] = [];
  if (gain.control)
    above.push({
      at: gain.control.score,
      name: "random control",
      value: number(gain.control.score, places),
      x: x(gain.control.score),
    });
  if (gain.before && gain.before.node !== gain.baseline?.node)
    above.push({
      at: gain.before.score,
      name: "before",
      value: number(gain.before.score, places),
      x: x(gain.before.score),
    });
  const tick = (value: number, colour: string, half: number): JSX.Element => (
    <line x1={x(value)} x2={x(value)} y1={MIDDLE - half} y2={MIDDLE + half} stroke={colour} stroke-width={2} />
  );
  const sentence = `Best ${times(gain.factor)} of the baseline${gain.factor_low !== null && gain.factor_high !== null ? `, interval ${times(gain.factor_low)} to ${times(gain.factor_high)}` : ""}${gain.control?.score ? `; the random control reached ${number(gain.control.score, places)}` : ""}`;
  const isAtEnd = x(best) > width - 60;
  const isClose = Math.abs(x(best) - x(base)) < 150;
  return (
    <Plot box={box} width={width} height={HEIGHT} label={sentence}>
      <line x1={x(base)} x2={x(best)} y1={MIDDLE} y2={MIDDLE} stroke="var(--line-strong)" stroke-width={2} />
      {tick(base, "var(--ink-2)", 6)}
      {gain.before && tick(gain.before.score, "var(--ink-3)", 4)}
      {gain.control && <Glyph mark="control" x={x(gain.control.score)} y={MIDDLE} r={7.5} />}
      {low !== null && high !== null && (
        <g>
          <rect
            x={Math.min(x(low), x(high))}
            y={MIDDLE - 9}
            width={Math.max(2, Math.abs(x(high) - x(low)))}
            height={18}
            rx={2}
            fill="var(--kept)"
            opacity={0.25}
          />
          {tick(low, "var(--kept)", 9)}
          {tick(high, "var(--kept)", 9)}
        </g>
      )}
      <Glyph mark="kept" x={clamp(x(best), 3, width - 6)} y={MIDDLE} r={5.5} />
      {spread(above, width).map((place) => (
        <text key={place.name} x={place.x} y={MIDDLE - 14} text-anchor={place.anchor}>
          {place.name} <tspan class="strong">{place.value}</tspan>
        </text>
      ))}
      {!isClose && (
        <text x={x(base)} y={MIDDLE + 24}>
          baseline <tspan class="strong">{number(base, places)}</tspan>
        </text>
      )}
      <text
        x={isAtEnd ? width : x(best)}
        y={MIDDLE + 24}
        text-anchor={isAtEnd ? "end" : isClose ? "start" : "middle"}
      >
        best <tspan class="strong">{number(best, places)}</tspan>
      </text>
    </Plot>
  );
}

// A factor above one is better whatever the direction: a time falls by it, a throughput grows.
function scoreAt(base: number, factor: number, turn: number): number {
  return turn > 0 ? base * factor : base / factor;
}
