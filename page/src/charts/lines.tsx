/** Lines over one axis, drawn by uPlot: learning curves, budgets, credit. */

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useWidth } from "../parts/size";
import { theme } from "../state/theme";

export interface Series {
  name: string;
  colour: string;
  values: (number | null)[];
  isDashed?: boolean;
  isStep?: boolean;
  width?: number;
}

interface Props {
  x: number[];
  series: Series[];
  height: number;
  label: string;
  xText(value: number): string;
  yText(value: number): string;
}

/** A canvas knows no custom properties: an element tells what a token is in this theme. */
function resolve(token: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(--${token})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

function options(props: Props, width: number): uPlot.Options {
  const axis = { stroke: resolve("ink-3"), font: "11px system-ui, sans-serif", ticks: { show: false }, gap: 6 };
  const grid = { stroke: resolve("line"), width: 1 };
  return {
    width,
    height: props.height,
    legend: { show: false },
    cursor: { y: false, points: { size: 6 } },
    scales: { x: { time: false } },
    axes: [
      { ...axis, grid: { show: false }, values: (_, marks) => marks.map(props.xText), size: 26 },
      { ...axis, grid, values: (_, marks) => marks.map(props.yText), size: 52 },
    ],
    series: [
      {},
      ...props.series.map((line) => ({
        label: line.name,
        stroke: resolve(line.colour),
        width: line.width ?? 2,
        points: { show: false },
        ...(line.isDashed ? { dash: [4, 4] } : {}),
        ...(line.isStep && uPlot.paths.stepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
      })),
    ],
  };
}

export function Lines(props: Props): JSX.Element {
  const [box, width] = useWidth<HTMLDivElement>(320);
  const inner = useRef<HTMLDivElement>(null);
  const shown = theme.value;
  useEffect(() => {
    if (!inner.current || !props.x.length) return undefined;
    const data = [props.x, ...props.series.map((line) => line.values)] as uPlot.AlignedData;
    const plot = new uPlot(options(props, width), data, inner.current);
    return () => plot.destroy();
  }, [props.x, props.series, props.height, width, shown]);
  return (
    <div ref={box} role="img" aria-label={props.label}>
      <div ref={inner} />
    </div>
  );
}

export function LineNames({ series }: { series: Series[] }): JSX.Element {
  return (
    <div class="legend names">
      {series.map((line) => (
        <span key={line.name} class="row">
          <svg width="16" height="8" aria-hidden="true">
            <path
              d="M0 4H16"
              stroke={`var(--${line.colour})`}
              stroke-width="2.5"
              stroke-dasharray={line.isDashed ? "4 3" : undefined}
            />
          </svg>
          {line.name}
        </span>
      ))}
    </div>
  );
}
