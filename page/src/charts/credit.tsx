/** The credit of one operator over the experiments, small, on a scale that all operators share. */

import type { JSX } from "preact";
import type { Operator } from "../api/tables";
import { useWidth } from "../parts/size";
import { fixed } from "../text/numbers";
import { Levels, Plot } from "./plot";
import { linear, tickPlaces, ticks } from "./scale";

const HEIGHT = 104;

interface Props {
  operator: Operator;
  lastOrder: number;
  most: number;
}

export function CreditChart({ operator, lastOrder, most }: Props): JSX.Element {
  const [box, width] = useWidth<HTMLDivElement>(280);
  const x = linear([0, lastOrder || 1], [40, width - 6]);
  const y = linear([0, most || 1], [HEIGHT - 18, 8]);
  const tries = linear([0, Math.max(1, operator.nodes)], [HEIGHT - 18, HEIGHT - 30]);
  const steps = operator.credit;
  const line = (at: (step: Operator["credit"][number]) => number): string =>
    steps.map((step, index) => `${index ? "H" : "M"}${x(step.order)}${index ? "V" : " "}${at(step)}`).join("") +
    (steps.length ? `H${x(lastOrder)}` : "");
  const marks = ticks(0, most || 1, 3);
  const digits = tickPlaces(marks);
  return (
    <Plot
      box={box}
      width={width}
      height={HEIGHT}
      label={`${operator.name}: ${fixed(operator.gain_percent, 1)} % in ${operator.bests} new bests, ${operator.nodes} tries`}
    >
      <Levels marks={marks} y={y} right={width - 6} text={(value) => `${fixed(value, digits)} %`} />
      <path d={line((step) => tries(step.nodes))} fill="none" stroke="var(--line-strong)" stroke-width={1.2} />
      <path d={line((step) => y(step.gain_percent))} fill="none" stroke="var(--kept)" stroke-width={2} />
      <text x={40} y={HEIGHT - 3}>
        0
      </text>
      <text x={width - 6} y={HEIGHT - 3} text-anchor="end">
        {fixed(lastOrder, 0)}
      </text>
    </Plot>
  );
}
