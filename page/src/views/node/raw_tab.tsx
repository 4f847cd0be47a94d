/** The record of the node as the ledger has it. */

import type { JSX } from "preact";
import type { NodeDetail } from "../../api/node";
import { Wait } from "../../parts/blocks";
import { Quoted } from "../../parts/said";
import { useQuery } from "../../state/query";

export function RawTab({ node }: { node: NodeDetail }): JSX.Element {
  const { data, error } = useQuery<{ text: string }>(`/api/node/${encodeURIComponent(node.id)}/raw`, { every: 0 });
  return (
    <div class="panel">
      {data ? <Quoted text={data.text} who="As the ledger has it" /> : <Wait error={error} />}
    </div>
  );
}
