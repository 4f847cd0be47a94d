/** The chart of all experiments, over experiments, time or cost. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../../api/client";
import type { NodeDetail } from "../../api/node";
import type { Axis, Overview, Point } from "../../api/overview";
import { INSET, Progress } from "../../charts/progress";
import { Card, Seg } from "../../parts/blocks";
import { hidden, Legend } from "../../parts/legend";
import { MARK_NAMES, MarkIcon } from "../../parts/marks";
import { Said } from "../../parts/said";
import { useWidth } from "../../parts/size";
import { hideTip, showTip } from "../../parts/tip";
import { go, nodeLink } from "../../state/route";
import { places } from "../../state/store";
import { nodeName } from "../../text/ids";
import { number } from "../../text/numbers";
import { usePoints } from "./points";

const known = new Map<string, NodeDetail | null>();

/** What a node is about is asked when the pointer rests on it, once. */
function PointTip({ point }: { point: Point }): JSX.Element {
  const [handle, , score, mark, id] = point;
  const [, redraw] = useState(0);
  useEffect(() => {
    if (known.has(id)) return undefined;
    const timer = window.setTimeout(() => {
      known.set(id, null);
      get<NodeDetail>(`/api/node/${encodeURIComponent(id)}`).then(
        (node) => {
          known.set(id, node);
          redraw((old) => old + 1);
        },
        () => known.delete(id),
      );
    }, 150);
    return () => window.clearTimeout(timer);
  }, [id]);
  const node = known.get(id);
  return (
    <>
      <div class="row">
        <MarkIcon mark={mark} />
        <b class="mono">{nodeName({ handle })}</b>
      </div>
      <div>
        <b>{score === null ? "no score" : number(score, places.value)}</b>{" "}
        <span class="dim">{MARK_NAMES[mark]}</span>
      </div>
      {node && (
        <>
          <Said text={node.summary} />
          <div class="dim">
            <Said text={node.reason} />
          </div>
        </>
      )}
    </>
  );
}

export function BestChart({ seen }: { seen: Overview }): JSX.Element {
  const [box, width] = useWidth<HTMLDivElement>(0);
  const [axis, setAxis] = useState<Axis>("experiment");
  const [height, setHeight] = useState(380);
  const frame = useRef<HTMLDivElement>(null);
  const points = usePoints(
    axis,
    Math.max(0, width - INSET.left - INSET.right),
    height - INSET.top - INSET.bottom,
    seen.started_at,
  );
  // The chart is as tall as what stands beside it, within reason.
  useEffect(() => {
    const beside = frame.current?.closest(".two")?.querySelector<HTMLElement>(".now-card");
    if (!beside) return undefined;
    const watch = new ResizeObserver(() => {
      const isBeside = beside.offsetTop === frame.current?.closest<HTMLElement>(".card")?.offsetTop;
      setHeight(isBeside ? Math.max(320, Math.min(560, Math.round((beside.offsetHeight - 96) / 40) * 40)) : 260);
    });
    watch.observe(beside);
    return () => watch.disconnect();
  }, []);
  const better = seen.metric.direction === "max" ? "more" : "less";
  return (
    <Card
      title="Best so far"
      class="best-card"
      tools={
        <Seg<Axis>
          name="Horizontal axis"
          options={[
            ["experiment", "Experiment"],
            ["time", "Time"],
            ["cost", "Cost"],
          ]}
          value={axis}
          onPick={setAxis}
        />
      }
    >
      <div class="chart-note dim wide">
        {seen.metric.name}, {better} is better; band: interval of the best
      </div>
      <div class="chart-box" ref={frame}>
        <div ref={box}>
          {points && width > 0 ? (
            <Progress
              overview={seen}
              points={points}
              axis={axis}
              hidden={hidden.value}
              width={width}
              height={height}
              places={places.value}
              onHover={(point, event) =>
                point ? showTip(event, <PointTip key={point[0]} point={point} />) : hideTip()
              }
              onOpen={(id) => {
                hideTip();
                go(nodeLink(id));
              }}
            />
          ) : (
            <div class="bone" style={{ height: `${height}px` }} />
          )}
        </div>
      </div>
      <Legend counts={seen.counts} />
    </Card>
  );
}
