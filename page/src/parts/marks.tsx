/** Verdict marks: a shape each, so that nothing rests on colour alone. */

import type { JSX, SVGAttributes } from "preact";
import type { Mark } from "../api/names";

export const MARK_NAMES: Record<Mark, string> = {
  kept: "kept",
  discarded: "discarded",
  inconclusive: "inconclusive",
  pruned: "pruned",
  rejected: "rejected",
  failed: "failed",
  held: "held for review",
  control: "control",
  version: "past version",
  open: "unjudged",
};

/** The order of legends. */
export const MARKS: Mark[] = [
  "kept",
  "discarded",
  "inconclusive",
  "pruned",
  "rejected",
  "failed",
  "held",
  "control",
  "version",
  "open",
];

/** Later ones are drawn above earlier ones. */
export const DRAW_ORDER: Mark[] = [
  "discarded",
  "pruned",
  "control",
  "failed",
  "rejected",
  "inconclusive",
  "open",
  "version",
  "held",
  "kept",
];

export const colourOf = (mark: Mark): string => `var(--${mark})`;

const disc = (x: number, y: number, r: number): string =>
  `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;

/** The outline of one mark, to be joined with others of its kind into one path. */
export function markPath(mark: Mark, x: number, y: number, r: number): string {
  switch (mark) {
    case "kept":
      return disc(x, y, r);
    case "discarded":
      return disc(x, y, r * 0.62);
    case "pruned":
      return `M${x - r * 0.8} ${y}h${r * 1.6}`;
    case "control":
      return disc(x, y, r * 0.65);
    case "version":
      return `M${x - r} ${y}h${2 * r}M${x} ${y - r}v${2 * r}`;
    case "open":
      return disc(x, y, r * 0.9);
    case "inconclusive":
      return `M${x} ${y - r}L${x + r} ${y}L${x} ${y + r}L${x - r} ${y}Z`;
    case "rejected":
      return `M${x - r * 0.8} ${y - r * 0.8}h${r * 1.6}v${r * 1.6}h${-r * 1.6}Z`;
    case "held":
      return `M${x} ${y - r * 1.2}L${x + r * 1.15} ${y + r}L${x - r * 1.15} ${y + r}Z`;
    case "failed": {
      const q = r * 0.8;
      return `M${x - q} ${y - q}L${x + q} ${y + q}M${x + q} ${y - q}L${x - q} ${y + q}`;
    }
  }
}

/** How a path of marks of one kind is painted. */
export function markPaint(mark: Mark): SVGAttributes<SVGPathElement> {
  const colour = colourOf(mark);
  switch (mark) {
    case "kept":
      return { fill: colour, stroke: "var(--surface)", "stroke-width": 1 };
    case "discarded":
      return { fill: colour, "fill-opacity": 0.62 };
    case "rejected":
      return { fill: colour };
    case "failed":
      return { fill: "none", stroke: colour, "stroke-width": 1.7, "stroke-linecap": "round" };
    case "pruned":
      return { fill: "none", stroke: colour, "stroke-width": 1.8, "stroke-linecap": "round" };
    case "control":
      return { fill: "none", stroke: colour, "stroke-width": 1.2 };
    case "version":
      return { fill: "none", stroke: colour, "stroke-width": 2, "stroke-linecap": "round" };
    case "open":
      return { fill: "none", stroke: colour, "stroke-width": 1.6, "stroke-dasharray": "2 2" };
    case "held":
      return { fill: "var(--surface)", stroke: colour, "stroke-width": 1.8, "stroke-linejoin": "round" };
    case "inconclusive":
      return { fill: "var(--surface)", stroke: colour, "stroke-width": 1.6 };
  }
}

export function Glyph({ mark, x, y, r = 4 }: { mark: Mark; x: number; y: number; r?: number }): JSX.Element {
  return <path d={markPath(mark, x, y, r)} {...markPaint(mark)} />;
}

export function MarkIcon({ mark }: { mark: Mark }): JSX.Element {
  return (
    <svg class="mark" viewBox="0 0 12 12" aria-hidden="true">
      <Glyph mark={mark} x={6} y={6} r={4.4} />
    </svg>
  );
}

export function Pill({ mark }: { mark: Mark }): JSX.Element {
  return (
    <span class="pill">
      <MarkIcon mark={mark} />
      {MARK_NAMES[mark]}
    </span>
  );
}
