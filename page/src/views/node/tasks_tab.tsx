/** Scores and traces by task. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { address } from "../../api/client";
import type { NodeDetail, Trace } from "../../api/node";
import { Wait } from "../../parts/blocks";
import { Quoted, Said } from "../../parts/said";
import { useQuery } from "../../state/query";
import { bytes, figure } from "../../text/numbers";

function TraceView({ node, task }: { node: NodeDetail; task: string }): JSX.Element {
  const { data, error } = useQuery<Trace>(address(`/api/node/${encodeURIComponent(node.id)}/trace`, { task }), {
    every: 0,
  });
  if (!data) return <Wait error={error} />;
  return (
    <>
      <Quoted text={data.text || "(empty)"} who={`Trace of ${task}, written by the candidate`} />
      {data.cut > 0 && <p class="dim small">{bytes(data.cut)} are left out.</p>}
    </>
  );
}

export function TasksTab({ node }: { node: NodeDetail }): JSX.Element {
  const [open, setOpen] = useState<string | null>(null);
  return (
    <>
      <table>
        <thead>
          <tr>
            <th>Task</th>
            <th class="num">Score</th>
            <th class="num">Trace</th>
          </tr>
        </thead>
        <tbody>
          {node.traces.map((trace) => (
            <tr key={trace.task} class="pick" onClick={() => setOpen(trace.task)}>
              <td>
                <button type="button" class="text-button" aria-expanded={open === trace.task}>
                  <Said text={trace.task} />
                </button>
              </td>
              <td class="num">{figure(trace.score)}</td>
              <td class="num dim">{trace.bytes ? bytes(trace.bytes) : "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {open && (
        <div class="panel">
          <TraceView key={open} node={node} task={open} />
        </div>
      )}
    </>
  );
}
