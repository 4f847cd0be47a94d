/** Best so far: every experiment a mark, failures in their own lane. */

import { type Quadtree, quadtree } from "d3-quadtree";
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Mark } from "../api/names";
import { type Axis, hasCells, type Overview, type Point, type Points } from "../api/overview";
import { DRAW_ORDER, Glyph, markPaint, markPath } from "../parts/marks";
import { hideTip } from "../parts/tip";
import { AXIS_NAMES, axisText, scoreText } from "../text/axis";
import { number, percent, times } from "../text/numbers";
import { Density } from "./density";
import { clamp, linear, padded, type Scale, tickPlaces, ticks } from "./scale";

export const INSET = { left: 52, right: 40, top: 18, bottom: 48, lane: 18 };

interface Props {
  overview: Overview;
  points: Points;
  axis: Axis;
  hidden: ReadonlySet<Mark>;
  width: number;
  height: number;
  places: number;
  onHover(point: Point | null, event: PointerEvent): void;
  onOpen(id: string): void;
}

interface Spot {
  x: number;
  y: number;
  point: Point;
}

/** One path for all marks of a kind: a thousand marks are nine elements. */
function paths(spots: Spot[], isBest: (point: Point) => boolean): [Mark, string][] {
  const by = new Map<Mark, string[]>();
  for (const { x, y, point } of spots) {
    const mark = point[3];
    const list = by.get(mark) ?? [];
    if (!by.has(mark)) by.set(mark, list);
    list.push(markPath(mark, round(x), round(y), isBest(point) ? 5.5 : mark === "kept" ? 4 : 3.8));
  }
  return DRAW_ORDER.filter((mark) => by.has(mark)).map((mark) => [mark, (by.get(mark) ?? []).join("")]);
}

const round = (value: number): number => Math.round(value * 10) / 10;

export function useSpots(
  props: Pick<Props, "points" | "hidden">,
  x: Scale,
  y: Scale,
  height: number,
): { spots: Spot[]; near: Quadtree<Spot> } {
  const laneY = height - INSET.bottom + 17;
  return useMemo(() => {
    const seen = new Set<number>();
    const spots: Spot[] = [];
    for (const point of [...props.points.points, ...props.points.outliers]) {
      if (seen.has(point[0]) || props.hidden.has(point[3])) continue;
      seen.add(point[0]);
      const hasScore = point[2] !== null && point[3] !== "rejected" && point[3] !== "failed";
      const at = hasScore ? clamp(y(point[2] as number), INSET.top - 8, height - INSET.bottom) : laneY;
      spots.push({ x: x(point[1]), y: at, point });
    }
    const near = quadtree<Spot>()
      .x((spot) => spot.x)
      .y((spot) => spot.y)
      .addAll(spots);
    return { spots, near };
  }, [props.points, props.hidden, x, y, height, laneY]);
}

export function Progress(props: Props): JSX.Element {
  const { overview, points, axis, width, height, places } = props;
  const plotRight = width - INSET.right;
  const [first, last] = points.x_range;
  const origin = axis === "time" && first > 1e8 ? overview.started_at : 0;
  const xEnd = hasCells(points.cells) ? last : last + (last - first) * 0.015;
  const x = useMemo(() => linear([first, xEnd], [INSET.left, plotRight]), [first, xEnd, plotRight]);
  // Cells were folded on the range as it is; marks alone get some air.
  const [low, high] = hasCells(points.cells)
    ? points.y_range
    : padded(points.y_range, points.outliers.length ? 0.1 : 0.05);
  const y = useMemo(() => linear([low, high], [height - INSET.bottom, INSET.top]), [low, high, height]);
  const { spots, near } = useSpots(props, x, y, height);
  const best = useMemo(() => new Set(overview.steps.map((step) => step.handle)), [overview.steps]);
  const drawn = useMemo(() => paths(spots, (point) => best.has(point[0])), [spots, best]);
  const [ring, setRing] = useState<Spot | null>(null);

  const find = (event: MouseEvent): Spot | null => {
    const box = (event.currentTarget as SVGSVGElement).getBoundingClientRect();
    return (
      near.find(
        ((event.clientX - box.left) / box.width) * width,
        ((event.clientY - box.top) / box.height) * height,
        20,
      ) ?? null
    );
  };
  const onMove = (event: PointerEvent): void => {
    const spot = find(event);
    setRing(spot);
    props.onHover(spot?.point ?? null, event);
  };
  const onLeave = (): void => {
    setRing(null);
    hideTip();
  };
  const scoreTicks = ticks(low, high, height > 240 ? 5 : 4);
  const scorePlaces = tickPlaces(scoreTicks);
  const xTicks = ticks(first - origin, xEnd - origin, width > 600 ? 7 : 4).filter(
    (value) => x(value + origin) > INSET.left + 70 && (axis !== "experiment" || Number.isInteger(value)),
  );
  const isTokens = axis === "cost" && overview.cost.money_usd === 0;
  const laneTop = height - INSET.bottom + 8;
  return (
    <svg
      class="chart progress"
      viewBox={`0 0 ${width} ${height}`}
      height={height}
      role="img"
      aria-label={sentence(overview, places)}
      onPointerMove={onMove}
      onPointerLeave={onLeave}
      onClick={(event) => {
        const spot = find(event);
        if (spot) props.onOpen(spot.point[4]);
      }}
    >
      {scoreTicks.map((value) => (
        <g key={value}>
          <line class="axis" x1={INSET.left} x2={plotRight} y1={y(value)} y2={y(value)} />
          <text x={INSET.left - 8} y={y(value) + 4} text-anchor="end">
            {scoreText(value, scorePlaces)}
          </text>
        </g>
      ))}
      <Factors overview={overview} y={y} range={[low, high]} at={plotRight + 8} />
      {xTicks.map((value) => (
        <text key={value} x={x(value + origin)} y={height - 4} text-anchor="middle">
          {axisText(axis, value, isTokens)}
        </text>
      ))}
      <text x={INSET.left} y={height - 4}>
        {AXIS_NAMES[axis]}
      </text>
      <rect
        x={INSET.left}
        y={laneTop}
        width={plotRight - INSET.left}
        height={INSET.lane}
        rx={4}
        fill="var(--sunken)"
      />
      <text x={INSET.left - 8} y={laneTop + 13} text-anchor="end">
        no score
      </text>
      <Density
        points={points}
        hidden={props.hidden}
        left={INSET.left}
        top={INSET.top}
        width={plotRight - INSET.left}
        height={height - INSET.top - INSET.bottom}
        laneTop={laneTop}
        laneHeight={INSET.lane}
      />
      <ControlLine
        overview={overview}
        axis={axis}
        x={x}
        y={y}
        end={plotRight}
        hidden={props.hidden}
        width={width}
      />
      {drawn.map(([mark, path]) => (
        <path key={mark} d={path} {...markPaint(mark)} />
      ))}
      <Line overview={overview} axis={axis} x={x} y={y} end={plotRight} />
      <Gains overview={overview} axis={axis} x={x} y={y} end={plotRight} />
      {spots
        .filter(({ point, y: at }) => point[2] !== null && point[3] === "held" && at < INSET.top)
        .map((spot) => (
          <text
            key={spot.point[0]}
            x={spot.x + 10}
            y={spot.y + 5}
            text-anchor={spot.x > plotRight - 50 ? "end" : "start"}
            dx={spot.x > plotRight - 50 ? -20 : 0}
          >
            ↑ {number(spot.point[2], places)}
          </text>
        ))}
      {ring && <circle cx={ring.x} cy={ring.y} r={9} fill="none" stroke="var(--ink)" stroke-width={1.5} />}
    </svg>
  );
}

export function sentence(overview: Overview, places: number): string {
  const from = number(overview.gain.baseline?.score, places);
  const to = number(overview.gain.best?.score, places);
  return `${overview.metric.name} of ${overview.nodes} experiments; the best went from ${from} to ${to}`;
}

const onAxis = (step: { order: number; at: number; cost: number }, axis: Axis): number =>
  axis === "experiment" ? step.order : axis === "time" ? step.at : step.cost;

interface Layer {
  overview: Overview;
  axis: Axis;
  x: Scale;
  y: Scale;
  end: number;
}

function Line({ overview, axis, x, y, end }: Layer): JSX.Element | null {
  const { steps } = overview;
  if (!steps.length) return null;
  const path = steps
    .map((step, index) => `${index ? "H" : "M"}${x(onAxis(step, axis))}${index ? "V" : " "}${y(step.score)}`)
    .join("");
  return (
    <g>
      <path d={`${path}H${end}`} fill="none" stroke="var(--kept)" stroke-width={2} />
      {steps.slice(1).map((step) => (
        <Glyph key={step.handle} mark="kept" x={x(onAxis(step, axis))} y={y(step.score)} r={5.5} />
      ))}
    </g>
  );
}

const LABEL_ROOM = 48;

/** The largest gains are named first, and the others where there is room beside them. */
function Gains({ overview, axis, x, y, end }: Layer): JSX.Element {
  const named: { at: number; top: number; gain: number; handle: number }[] = [];
  const rows = overview.steps.slice(1).map((step) => ({ step, gain: step.gain_percent ?? 0 }));
  for (const { step, gain } of rows.sort((a, b) => b.gain - a.gain)) {
    const at = x(onAxis(step, axis));
    if (gain < 0.1) break;
    if (named.every((other) => Math.abs(other.at - at) >= LABEL_ROOM))
      named.push({ at, top: y(step.score), gain, handle: step.handle });
  }
  return (
    <g>
      {named.map(({ at, top, gain, handle }) => (
        <text
          key={handle}
          class="strong halo"
          x={at - 4}
          y={top - 10}
          text-anchor={at > end - 30 ? "end" : "middle"}
        >
          {percent(gain, gain < 9.95 ? 1 : 0)}
        </text>
      ))}
    </g>
  );
}

function ControlLine({
  overview,
  axis,
  x,
  y,
  end,
  hidden,
  width,
}: Layer & { hidden: ReadonlySet<Mark>; width: number }): JSX.Element | null {
  const steps = overview.control_steps;
  const last = steps[steps.length - 1];
  if (!last || hidden.has("control")) return null;
  const path = steps
    .map((step, index) => `${index ? "H" : "M"}${x(onAxis(step, axis))}${index ? "V" : " "}${y(step.score)}`)
    .join("");
  return (
    <g>
      <path d={`${path}H${end}`} fill="none" stroke="var(--control)" stroke-width={1.4} stroke-dasharray="4 4" />
      {width > 500 && (
        <text class="halo" x={end - 4} y={y(last.score) - 7} text-anchor="end">
          best of the random control
        </text>
      )}
    </g>
  );
}

/** The scale on the right: how many times the baseline. */
function Factors({
  overview,
  y,
  range,
  at,
}: {
  overview: Overview;
  y: Scale;
  range: [number, number];
  at: number;
}): JSX.Element | null {
  const base = overview.gain.baseline?.score;
  if (!base || base <= 0) return null;
  const isMax = overview.metric.direction === "max";
  const ends = range.filter((value) => value > 0).map((value) => (isMax ? value / base : base / value));
  if (ends.length < 2) return null;
  const marks = ticks(Math.min(...ends), Math.max(...ends), 4).filter((factor) => factor > 0);
  const digits = tickPlaces(marks);
  // Of a metric where less is better, high factors crowd together: those that would touch are left out.
  const shown: { factor: number; top: number }[] = [];
  for (const factor of marks) {
    const top = y(isMax ? base * factor : base / factor) + 4;
    if (shown.every((other) => Math.abs(other.top - top) >= 16)) shown.push({ factor, top });
  }
  return (
    <g>
      {shown.map(({ factor, top }) => (
        <text key={factor} x={at} y={top}>
          {digits > 2 ? times(factor) : `${factor.toFixed(digits)}×`}
        </text>
      ))}
    </g>
  );
}
