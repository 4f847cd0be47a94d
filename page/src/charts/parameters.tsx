/** Parameters against the score: one slice each, and all of them as parallel coordinates. */

import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import type { Mark } from "../api/names";
import type { Parameter, ParameterLine, Parameters } from "../api/tables";
import { DRAW_ORDER, markPaint, markPath } from "../parts/marks";
import { useWidth } from "../parts/size";
import { scoreText } from "../text/axis";
import { valueText } from "../text/hostile";
import { number } from "../text/numbers";
import { Levels, Plot } from "./plot";
import { extent, linear, padded, tickPlaces, ticks } from "./scale";

/** Where a value stands on its parameter's axis, 0 to 1; null: it has none. */
export function standing(parameter: Parameter, value: unknown): number | null {
  if (value === null || value === undefined) return null;
  if (parameter.kind === "category") {
    const at = parameter.values.indexOf(value);
    return at < 0 ? null : (at + 0.5) / Math.max(1, parameter.values.length);
  }
  const [low, high] = [parameter.low, parameter.high];
  if (typeof value !== "number" || low === null || high === null) return null;
  if (high === low) return 0.5;
  if (parameter.log && low > 0 && value > 0) return Math.log(value / low) / Math.log(high / low);
  return (value - low) / (high - low);
}

/** A small, fixed shift, so that equal values do not hide each other. */
export const jitter = (handle: number): number => (((handle * 37) % 11) - 5) / 11;

const trim = (text: string, room: number): string => (text.length > room ? `${text.slice(0, room - 1)}…` : text);

export function axisMarks(parameter: Parameter): [number, string][] {
  if (parameter.kind === "category")
    return parameter.values.map((value, index) => [(index + 0.5) / parameter.values.length, valueText(value)]);
  const [low, high] = [parameter.low ?? 0, parameter.high ?? 1];
  const values = parameter.log && low > 0 ? logMarks(low, high) : ticks(low, high, 4);
  const places = tickPlaces(values);
  return values.map((value) => [
    standing(parameter, value) ?? 0,
    parameter.log ? valueText(value) : number(value, Math.min(4, places)),
  ]);
}

/** Powers of two where the range begins with one, else powers of ten; at most six. */
export function logMarks(low: number, high: number): number[] {
  const base = Number.isInteger(Math.log2(low)) ? 2 : 10;
  const first = Math.ceil(Math.log(low) / Math.log(base) - 1e-9);
  const last = Math.floor(Math.log(high) / Math.log(base) + 1e-9);
  const marks: number[] = [];
  for (let power = first; power <= last; power += Math.max(1, Math.ceil((last - first) / 5)))
    marks.push(Number((base ** power).toPrecision(6)));
  return marks.length > 1 ? marks : [low, high];
}

const TALL = 170;

export function Slice({ answer, index }: { answer: Parameters; index: number }): JSX.Element | null {
  const [box, width] = useWidth<HTMLDivElement>(320);
  const parameter = answer.parameters[index];
  const range = useMemo(() => padded(extent(answer.lines.map((line) => line.score)) ?? [0, 1]), [answer]);
  const paths = useMemo(() => {
    if (!parameter) return [];
    const x = linear([0, 1], [48, width - 12]);
    const y = linear(range, [TALL - 22, 8]);
    const by = new Map<Mark, string[]>();
    for (const line of answer.lines) {
      const at = standing(parameter, line.values[index]);
      if (at === null) continue;
      const shift =
        jitter(line.handle) *
        (parameter.kind === "category" ? (width - 60) / Math.max(3, parameter.values.length * 2.4) : 5);
      const list = by.get(line.mark) ?? [];
      by.set(line.mark, list);
      list.push(
        markPath(
          line.mark,
          Math.round((x(at) + shift) * 10) / 10,
          Math.round(y(line.score) * 10) / 10,
          line.tenth && line.mark === "kept" ? 4.6 : 3.4,
        ),
      );
    }
    return DRAW_ORDER.filter((mark) => by.has(mark)).map((mark) => ({
      mark,
      path: (by.get(mark) ?? []).join(""),
    }));
  }, [answer, index, parameter, width, range]);
  if (!parameter) return null;
  const x = linear([0, 1], [48, width - 12]);
  const y = linear(range, [TALL - 22, 8]);
  const marks = ticks(range[0], range[1], 3);
  const places = tickPlaces(marks);
  return (
    <Plot box={box} width={width} height={TALL} label={`${parameter.name} against ${answer.metric.name}`}>
      <Levels marks={marks} y={y} right={width - 6} text={(value) => scoreText(value, places)} />
      {axisMarks(parameter).map(([at, text]) => (
        <text key={text} x={x(at)} y={TALL - 5} text-anchor="middle">
          {trim(text, 14)}
        </text>
      ))}
      {paths.map(({ mark, path }) => (
        <path key={mark} d={path} {...markPaint(mark)} />
      ))}
    </Plot>
  );
}

const HIGH = 280;
const INSET = { left: 48, right: 48, top: 44, bottom: 28 };

interface Brush {
  axis: number;
  low: number;
  high: number;
}

export function Parallel({ answer, onOpen }: { answer: Parameters; onOpen(id: string): void }): JSX.Element {
  const [box, room] = useWidth<HTMLDivElement>(760);
  const width = Math.max(room, (answer.parameters.length + 1) * 96);
  const [brush, setBrush] = useState<Brush | null>(null);
  const drag = useRef<{ axis: number; from: number } | null>(null);
  const axes = answer.parameters.length + 1;
  const range = extent(answer.lines.map((line) => line.score)) ?? [0, 1];
  const isMin = answer.metric.direction === "min";
  const x = (axis: number): number =>
    INSET.left + (axis / Math.max(1, axes - 1)) * (width - INSET.left - INSET.right);
  const y = linear([0, 1], [HIGH - INSET.bottom, INSET.top]);
  const where = (line: ParameterLine, axis: number): number | null => {
    if (axis === axes - 1) {
      const at = linear(range, [0, 1])(line.score);
      return isMin ? 1 - at : at;
    }
    const parameter = answer.parameters[axis];
    return parameter ? standing(parameter, line.values[axis]) : null;
  };
  const isIn = (line: ParameterLine): boolean => {
    if (!brush) return true;
    const at = where(line, brush.axis);
    return at !== null && at >= brush.low && at <= brush.high;
  };
  const best = answer.lines.reduce<ParameterLine | null>(
    (top, line) => (!top || (isMin ? line.score < top.score : line.score > top.score) ? line : top),
    null,
  );
  const path = (line: ParameterLine): string => {
    let text = "";
    for (let axis = 0; axis < axes; axis += 1) {
      const at = where(line, axis);
      if (at === null) continue;
      const shift = axis < axes - 1 ? jitter(line.handle) * 4 : 0;
      text += `${text ? "L" : "M"}${Math.round(x(axis))} ${Math.round(y(at) + shift)}`;
    }
    return text;
  };
  const shown = answer.lines.filter(isIn);
  const unitAt = (event: PointerEvent): number => {
    const frame = (event.currentTarget as SVGElement).ownerSVGElement?.getBoundingClientRect();
    return frame ? 1 - (event.clientY - frame.top - INSET.top) / (HIGH - INSET.top - INSET.bottom) : 0;
  };
  return (
    <div ref={box}>
      <svg
        class="chart"
        style={{ width: `${width}px` }}
        viewBox={`0 0 ${width} ${HIGH}`}
        height={HIGH}
        role="img"
        aria-label={`Parallel coordinates of ${answer.parameters.length} parameters and ${answer.metric.name}; ${shown.length} of ${answer.lines.length} results shown`}
      >
        <path
          d={shown
            .filter((line) => !line.tenth)
            .map(path)
            .join("")}
          fill="none"
          stroke="var(--ink-3)"
          opacity={shown.length > 400 ? 0.06 : 0.13}
        />
        <path
          d={shown
            .filter((line) => line.tenth)
            .map(path)
            .join("")}
          fill="none"
          stroke="var(--kept)"
          opacity={0.45}
        />
        {best && isIn(best) && (
          <path
            d={path(best)}
            fill="none"
            stroke="var(--kept)"
            stroke-width={3}
            class="pickable"
            onClick={() => onOpen(best.id)}
          />
        )}
        {Array.from({ length: axes }, (_, axis) => {
          const parameter = answer.parameters[axis];
          const [low, high] = parameter
            ? ends(parameter)
            : isMin
              ? [range[1], range[0]].map((value) => number(value, tickPlaces(ticks(range[0], range[1], 4)) + 1))
              : range.map((value) => number(value, tickPlaces(ticks(range[0], range[1], 4)) + 1));
          return (
            <g key={axis}>
              <line
                x1={x(axis)}
                x2={x(axis)}
                y1={INSET.top}
                y2={HIGH - INSET.bottom}
                stroke="var(--line-strong)"
              />
              <text class="strong" x={x(axis)} y={14} text-anchor="middle">
                {trim(parameter?.name ?? answer.metric.name, 16)}
              </text>
              <text x={x(axis)} y={INSET.top - 12} text-anchor="middle">
                {trim(String(high), 14)}
              </text>
              <text x={x(axis)} y={HIGH - 8} text-anchor="middle">
                {trim(String(low), 14)}
              </text>
              {brush?.axis === axis && (
                <rect
                  x={x(axis) - 6}
                  width={12}
                  y={y(brush.high)}
                  height={Math.max(2, y(brush.low) - y(brush.high))}
                  rx={3}
                  fill="var(--kept)"
                  opacity={0.3}
                />
              )}
              <rect
                class="brush"
                x={x(axis) - 12}
                y={INSET.top}
                width={24}
                height={HIGH - INSET.top - INSET.bottom}
                fill="transparent"
                onPointerDown={(event) => {
                  event.currentTarget.setPointerCapture(event.pointerId);
                  drag.current = { axis, from: unitAt(event) };
                }}
                onPointerMove={(event) => {
                  if (!drag.current) return;
                  const to = unitAt(event);
                  setBrush({ axis, low: Math.min(drag.current.from, to), high: Math.max(drag.current.from, to) });
                }}
                onPointerUp={(event) => {
                  if (drag.current && Math.abs(unitAt(event) - drag.current.from) < 0.02) setBrush(null);
                  drag.current = null;
                }}
              />
            </g>
          );
        })}
      </svg>
    </div>
  );
}

function ends(parameter: Parameter): [string, string] {
  if (parameter.kind === "category")
    return [valueText(parameter.values[0]), valueText(parameter.values[parameter.values.length - 1])];
  return [valueText(parameter.low), valueText(parameter.high)];
}
