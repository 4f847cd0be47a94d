/** The map, and what is loaded of it. */

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { said } from "../../actions/asked";
import { address, get } from "../../api/client";
import type { MapNode, TreeMap } from "../../api/tables";
import { TreeMapView } from "../../charts/map";
import { Wait } from "../../parts/blocks";
import { useQuery } from "../../state/query";
import { places, shownRun } from "../../state/store";

/** Parts of the tree that were asked for one by one, as one list; a newer answer wins. */
export function mergeMaps(parts: TreeMap[]): MapNode[] {
  const by = new Map<string, MapNode>();
  for (const part of parts)
    for (const node of part.nodes) {
      const known = by.get(node.id);
      by.set(node.id, known ? { ...node, hidden: Math.min(node.hidden, known.hidden) } : node);
    }
  return [...by.values()];
}

export function MapPanel({ fitTurn }: { fitTurn: number }): JSX.Element {
  const { data, error } = useQuery<TreeMap>(address("/api/map", { run: shownRun.value }), { every: 4 });
  const [parts, setParts] = useState<TreeMap[]>([]);
  const run = data?.run;
  useEffect(() => setParts([]), [run]);
  const nodes = useMemo(() => (data ? mergeMaps([data, ...parts]) : []), [data, parts]);
  if (!data)
    return (
      <div class="in">
        <Wait error={error} />
      </div>
    );
  const onMore = (id: string): void => {
    get<TreeMap>(address("/api/map", { run: shownRun.value, top: id })).then(
      (part) => setParts((old) => [...old, part]),
      (refused: Error) => {
        said.value = { text: refused.message, isBad: true };
      },
    );
  };
  return <TreeMapView nodes={nodes} places={places.value} fitTurn={fitTurn} onMore={onMore} />;
}
