/** What the model was asked, and what it answered. */

import type { JSX } from "preact";
import type { Call, NodeDetail } from "../../api/node";
import { Wait } from "../../parts/blocks";
import { Quoted, Said } from "../../parts/said";
import { useQuery } from "../../state/query";
import { nodeLink } from "../../state/route";
import { nodeName } from "../../text/ids";
import { bytes, clock, dollars, duration, tokens } from "../../text/numbers";

function CallView({ call }: { call: Call }): JSX.Element {
  return (
    <article class="parts">
      <div class="who">
        <b>
          <Said text={call.role} />
        </b>
        <Said text={call.model} />
        <span>{clock(call.at)}</span>
        {call.seconds !== null && <span>{duration(call.seconds)}</span>}
        <span>{tokens(call.tokens)} tokens</span>
        <span>{dollars(call.money_usd)}</span>
      </div>
      {call.failure && (
        <p class="ill">
          <Said text={call.failure} />
        </p>
      )}
      <details>
        <summary>Prompt, written by loopty from the record</summary>
        <Quoted text={call.prompt} />
      </details>
      <details open>
        <summary>Reply, written by the model</summary>
        <Quoted text={call.reply || "(empty)"} />
      </details>
      {call.cut > 0 && <p class="dim small">{bytes(call.cut)} are left out.</p>}
      {call.refused.map((reason, index) => (
        <p key={index} class="dim">
          Refused: <Said text={reason} />
        </p>
      ))}
      {call.led_to.length > 1 && (
        <p class="dim">
          It led to{" "}
          {call.led_to.map((other) => (
            <a key={other.id} class="mono" href={nodeLink(other.id)}>
              {nodeName(other)}{" "}
            </a>
          ))}
        </p>
      )}
    </article>
  );
}

export function TalkTab({ node }: { node: NodeDetail }): JSX.Element {
  const { data, error } = useQuery<{ calls: Call[] }>(`/api/node/${encodeURIComponent(node.id)}/calls`, {
    every: 0,
  });
  if (!data)
    return (
      <div class="panel">
        <Wait error={error} />
      </div>
    );
  return (
    <div class="talk">
      {data.calls.map((call) => (
        <CallView key={call.call} call={call} />
      ))}
      {!data.calls.length && <p class="mid">No call of a model belongs to this node.</p>}
    </div>
  );
}
