/** The map of the tree: pan and zoom, kept nodes as the skeleton, all other children one bar by verdict. */

import { select } from "d3-selection";
import { type D3ZoomEvent, type ZoomBehavior, zoom, zoomIdentity } from "d3-zoom";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Mark } from "../api/names";
import type { MapNode } from "../api/tables";
import { colourOf, Glyph } from "../parts/marks";
import { Said } from "../parts/said";
import { hideTip, showTip } from "../parts/tip";
import { go, nodeLink } from "../state/route";
import { nodeName } from "../text/ids";
import { count, number, plural } from "../text/numbers";
import { type Layout, layout, type Place } from "./map_layout";

interface Props {
  nodes: MapNode[];
  places: number;
  fitTurn: number;
  onMore(id: string): void;
}

const OTHERS: Mark[] = ["discarded", "pruned", "control", "version", "inconclusive", "rejected", "failed"];

export function TreeMapView({ nodes, places, fitTurn, onMore }: Props): JSX.Element {
  const frame = useRef<SVGSVGElement>(null);
  const inner = useRef<SVGGElement>(null);
  const behaviour = useRef<ZoomBehavior<SVGSVGElement, unknown> | null>(null);
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set());
  const drawn = useMemo(() => layout(nodes, (id) => folded.has(id)), [nodes, folded]);

  useEffect(() => {
    if (!frame.current) return undefined;
    const svg = select(frame.current);
    const zoomer = zoom<SVGSVGElement, unknown>()
      .scaleExtent([0.08, 3])
      .on("zoom", (event: D3ZoomEvent<SVGSVGElement, unknown>) =>
        inner.current?.setAttribute("transform", event.transform.toString()),
      );
    svg.call(zoomer);
    svg.on("dblclick.zoom", null);
    behaviour.current = zoomer;
    return () => {
      svg.on(".zoom", null);
    };
  }, []);

  // Fit at the first drawing and when a person asks; later data must not move the map under the pointer.
  const size = `${drawn.width > 0}`;
  useEffect(() => {
    if (!frame.current || !behaviour.current) return;
    const box = frame.current.getBoundingClientRect();
    const scale = Math.min(
      1.15,
      Math.max(0.3, Math.min((box.width - 90) / drawn.width, (box.height - 90) / drawn.height)),
    );
    select(frame.current).call(
      behaviour.current.transform,
      zoomIdentity.translate(60, 60).scale(Math.max(scale, 0.55)),
    );
  }, [fitTurn, size]);

  const toggle = (place: Place): void => {
    const next = new Set(folded);
    if (!next.delete(place.node.id)) next.add(place.node.id);
    setFolded(next);
  };
  return (
    <svg ref={frame} class="map" role="group" aria-label="Map of kept nodes; the log holds the same as text">
      <g ref={inner}>
        <Edges drawn={drawn} />
        {[...drawn.places.values()].map((place) => (
          <Spot
            key={place.node.id}
            place={place}
            places={places}
            isFolded={folded.has(place.node.id)}
            onFold={() => toggle(place)}
            onMore={onMore}
          />
        ))}
      </g>
    </svg>
  );
}

function Edges({ drawn }: { drawn: Layout }): JSX.Element {
  const plain: string[] = [];
  const bold: string[] = [];
  const further: string[] = [];
  for (const { node, x, y } of drawn.places.values()) {
    const up = node.parent === null ? undefined : drawn.places.get(node.parent);
    if (up) {
      const middle = up.x + 22;
      const path =
        up.y === y
          ? `M${up.x} ${y}H${x}`
          : `M${up.x} ${up.y}C${middle} ${up.y} ${middle - 6} ${y} ${up.x + 46} ${y}H${x}`;
      (node.on_best_path ? bold : plain).push(path);
    }
    for (const id of node.merged) {
      const other = drawn.places.get(id);
      if (other)
        further.push(`M${other.x} ${other.y}C${(other.x + x) / 2} ${other.y} ${(other.x + x) / 2} ${y} ${x} ${y}`);
    }
  }
  return (
    <g>
      <path class="edge" d={plain.join("")} />
      <path class="edge also" d={further.join("")} />
      <path class="edge on" d={bold.join("")} />
    </g>
  );
}

interface SpotProps {
  place: Place;
  places: number;
  isFolded: boolean;
  onFold(): void;
  onMore(id: string): void;
}

function Spot({ place, places, isFolded, onFold, onMore }: SpotProps): JSX.Element {
  const { node, x, y } = place;
  const isBig = node.on_best_path;
  const tip = (
    <>
      <div class="mono">{nodeName(node)}</div>
      <Said text={node.summary} />
      {node.pool === "version" && <div>past version</div>}
      <div class="dim">{plural(sum(node), "other try", "other tries")} from here</div>
    </>
  );
  const score = number(node.score, places);
  return (
    <g transform={`translate(${x} ${y})`}>
      <a
        href={nodeLink(node.id)}
        class="spot"
        aria-label={`${nodeName(node)}, ${node.pool === "version" ? "past version, " : ""}${node.mark}, ${score}`}
        onPointerMove={(event) => showTip(event, tip)}
        onPointerLeave={hideTip}
        onClick={(event) => {
          event.preventDefault();
          hideTip();
          go(nodeLink(node.id));
        }}
      >
        <circle r={14} fill="transparent" />
        <Glyph mark={node.mark} x={0} y={0} r={isBig ? 7 : 4.5} />
        <text
          class={isBig ? "strong halo" : "halo"}
          x={isBig ? 0 : 9}
          y={isBig ? -14 : 4}
          text-anchor={isBig ? "middle" : "start"}
        >
          {score}
        </text>
      </a>
      <Others node={node} isBig={isBig} />
      {(node.kept_children > 1 || isFolded) && (
        <Knob
          y={isBig ? 12 : -10}
          text={isFolded ? "+" : "−"}
          label={`${isFolded ? "Unfold" : "Fold"} ${nodeName(node)}`}
          onPress={onFold}
        />
      )}
      {node.hidden > 0 && (
        <Knob
          y={isBig ? 12 : -10}
          text="…"
          label={`Show ${plural(node.hidden, "more kept node")} below ${nodeName(node)}`}
          onPress={() => onMore(node.id)}
        />
      )}
    </g>
  );
}

const sum = (node: MapNode): number => Object.values(node.others).reduce((total, many) => total + (many ?? 0), 0);

function Others({ node, isBig }: { node: MapNode; isBig: boolean }): JSX.Element | null {
  const total = sum(node);
  if (!total) return null;
  const wide = Math.min(44, 8 + Math.sqrt(total) * 5);
  let at = isBig ? -wide / 2 : 0;
  return (
    <g transform={isBig ? "translate(0 12)" : "translate(52 -4)"} aria-hidden="true">
      {OTHERS.map((mark) => {
        const many = node.others[mark] ?? 0;
        if (!many) return null;
        const width = (many / total) * wide;
        const left = at;
        at += width;
        return (
          <rect
            key={mark}
            x={left}
            y={0}
            width={Math.max(1, width - 0.7)}
            height={7}
            rx={1}
            fill={colourOf(mark)}
            opacity={mark === "discarded" || mark === "control" ? 0.45 : 0.9}
          />
        );
      })}
      <text class="halo" x={(isBig ? wide / 2 : wide) + 5} y={7.5}>
        {count(total)}
      </text>
    </g>
  );
}

function Knob({
  y,
  text,
  label,
  onPress,
}: {
  y: number;
  text: string;
  label: string;
  onPress(): void;
}): JSX.Element {
  return (
    <g
      class="knob"
      role="button"
      tabIndex={0}
      aria-label={label}
      transform={`translate(-34 ${y - 5})`}
      onClick={onPress}
      onKeyDown={(event) => (event.key === "Enter" || event.key === " ") && onPress()}
    >
      <rect x={-7} y={-7} width={14} height={14} rx={4} />
      <text text-anchor="middle" y={4}>
        {text}
      </text>
    </g>
  );
}
