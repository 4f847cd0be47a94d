/** One node: what changed, what came of it, and how sure that is. */

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { type ActionName, ask } from "../../actions/asked";
import { ACTION_LABELS, isAction } from "../../actions/wording";
import type { NodeDetail } from "../../api/node";
import { Wait } from "../../parts/blocks";
import { MarkIcon, Pill } from "../../parts/marks";
import { PastVersion } from "../../parts/past_version";
import { Said } from "../../parts/said";
import { setSteps } from "../../state/keys";
import { useQuery } from "../../state/query";
import { go, link, nodeLink, route } from "../../state/route";
import { canAct, overview } from "../../state/store";
import { nodeName } from "../../text/ids";
import { clock } from "../../text/numbers";
import { NodeSide } from "./node_side";
import { NodeTabs } from "./node_tabs";

function Crumbs({ node }: { node: NodeDetail }): JSX.Element {
  return (
    <nav class="crumbs" aria-label="Ancestors">
      {node.path.map((step, index) => {
        const segment = index ? step.id.slice((node.path[index - 1]?.id.length ?? -1) + 1) : step.id;
        const isLast = index === node.path.length - 1;
        return (
          <>
            {index > 0 && <span key={`${step.id} dot`}>.</span>}
            {isLast ? (
              <b key={step.id}>{segment}</b>
            ) : (
              <a key={step.id} href={nodeLink(step.id)} aria-label={`Ancestor ${step.id}`}>
                {segment}
              </a>
            )}
          </>
        );
      })}
    </nav>
  );
}

function compareLink(node: NodeDetail): string {
  const best = overview.value?.gain.best?.node;
  const other = node.against?.id ?? node.parent?.id ?? best ?? "";
  return link("compare", [], { a: other, b: node.id });
}

const DECISIONS: ActionName[] = ["accept", "discard", "invalidate", "remeasure"];

function Actions({ node }: { node: NodeDetail }): JSX.Element {
  // What a held node waits for stands in the bar below.
  const shown = node.actions.filter(isAction).filter((name) => node.mark !== "held" || !DECISIONS.includes(name));
  const main = node.actions.includes("replay") ? "replay" : node.mark === "held" ? "" : "apply";
  shown.sort((a, b) => Number(a === main) - Number(b === main));
  return (
    <div class="acts">
      <a class="btn" href={compareLink(node)}>
        Compare <kbd class="wide">c</kbd>
      </a>
      {shown.map((name) => (
        <button
          key={name}
          type="button"
          class={`btn ${name === main ? "main" : ""}`}
          disabled={!canAct.value}
          onClick={() => ask(name, node)}
        >
          {ACTION_LABELS[name]}
        </button>
      ))}
    </div>
  );
}

function Decide({ node }: { node: NodeDetail }): JSX.Element | null {
  if (node.mark !== "held") return null;
  const choices = DECISIONS.filter((name) => node.actions.includes(name));
  return (
    <div class="decide">
      <MarkIcon mark="held" />
      <span class="grow">
        <b>Held for review.</b> It counts for nothing until you decide.
      </span>
      {choices.map((name) => (
        <button key={name} type="button" class="btn low" disabled={!canAct.value} onClick={() => ask(name, node)}>
          {ACTION_LABELS[name]}
        </button>
      ))}
    </div>
  );
}

export function NodeView(): JSX.Element {
  const id = route.value.rest[0] ?? "best";
  const { data: node, error } = useQuery<NodeDetail>(`/api/node/${encodeURIComponent(id)}`, { every: 2 });
  useEffect(() => {
    if (!node) return undefined;
    return setSteps({
      next: node.next,
      previous: node.previous,
      nextKept: node.next_kept,
      previousKept: node.previous_kept,
      parent: node.parent?.id ?? null,
      child: node.children.kept[0]?.id ?? null,
      compare: () => go(compareLink(node)),
    });
  }, [node]);
  if (!node)
    return (
      <>
        <h1 class="sr">Node {id}</h1>
        <Wait error={error} />
      </>
    );
  return (
    <>
      <Crumbs node={node} />
      <div class="node-head">
        <b class="mono">{nodeName(node)}</b>
        <Pill mark={node.running && node.mark === "open" ? "open" : node.mark} />
        <h1 class="title">
          <Said text={node.summary || "The baseline"} />
        </h1>
        {node.pool === "version" && <PastVersion />}
        {node.is_best && <span class="tag">best</span>}
        <Actions node={node} />
      </div>
      <div class="node-why">
        <Said text={node.reason} />
        {node.set_aside && (
          <span class="ill">
            Set aside: <Said text={node.set_aside} />
          </span>
        )}
        <span class="dim">
          {clock(node.added_at)} ·{" "}
          <Said
            text={[node.operator, node.author && node.author !== node.operator ? node.author : ""]
              .filter(Boolean)
              .join(", ")}
          />
        </span>
      </div>
      <Decide node={node} />
      <div class="grid two">
        <NodeTabs node={node} />
        <NodeSide node={node} />
      </div>
    </>
  );
}
