/** What this node changed: files with a diff, parameters as before and after. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { address } from "../../api/client";
import type { Before } from "../../api/names";
import type { Diff, NodeDetail } from "../../api/node";
import { DiffView } from "../../diff/diff_view";
import { Seg, Wait } from "../../parts/blocks";
import { Said } from "../../parts/said";
import { useQuery } from "../../state/query";
import { valueText } from "../../text/hostile";

export function ParamTable({ changes }: { changes: Record<string, Before> }): JSX.Element | null {
  const names = Object.keys(changes);
  if (!names.length) return null;
  return (
    <table>
      <thead>
        <tr>
          <th>Parameter</th>
          <th class="num">Before</th>
          <th class="num">Here</th>
        </tr>
      </thead>
      <tbody>
        {names.map((name) => (
          <tr key={name}>
            <td class="mono">
              <Said text={name} />
            </td>
            <td class="num dim">
              <Said text={valueText(changes[name]?.before)} />
            </td>
            <td class="num">
              <b>
                <Said text={valueText(changes[name]?.after)} />
              </b>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function DiffTab({ node }: { node: NodeDetail }): JSX.Element {
  const [against, setAgainst] = useState<"parent" | "baseline">("parent");
  const { data, error } = useQuery<Diff>(address(`/api/node/${encodeURIComponent(node.id)}/diff`, { against }), {
    every: 0,
  });
  const params = Object.entries(node.params);
  return (
    <>
      {node.parent && (
        <div class="panel row apart">
          <span class="dim small">
            {against === "parent" ? "What it changed of its parent" : "All changes since the baseline"}
          </span>
          <Seg<"parent" | "baseline">
            name="Held against"
            options={[
              ["parent", "Parent"],
              ["baseline", "Baseline"],
            ]}
            value={against}
            onPick={setAgainst}
          />
        </div>
      )}
      {!data ? (
        <div class="panel">
          {node.parent || !error ? <Wait error={error} /> : <p class="mid">The baseline: nothing is changed.</p>}
        </div>
      ) : (
        <>
          <ParamTable changes={data.params} />
          {(data.patch.trim() || !Object.keys(data.params).length) && (
            <DiffView patch={data.patch} cut={data.cut} />
          )}
        </>
      )}
      {params.length > 0 && (
        <div class="panel parts">
          <h3 class="label">All parameters of this node</h3>
          <div class="chips">
            {params.map(([name, value]) => (
              <span key={name} class="chip">
                <Said text={`${name}=${valueText(value)}`} />
              </span>
            ))}
          </div>
        </div>
      )}
    </>
  );
}
