/** The right half of a node: the effect, the judge's pairs, the checks, where it stands in the tree. */

import type { ComponentChildren, JSX } from "preact";
import type { Change, Mark, NodeName } from "../../api/names";
import type { NodeDetail, NodeMetric, Pairs } from "../../api/node";
import { type Effects, Forest, percentEnds } from "../../charts/interval";
import { Dumbbells, Sequence } from "../../charts/pairs";
import { Card, Facts } from "../../parts/blocks";
import { MarkIcon } from "../../parts/marks";
import { Said } from "../../parts/said";
import { nodeLink } from "../../state/route";
import { overview, places } from "../../state/store";
import { nodeName } from "../../text/ids";
import {
  clock,
  dollars,
  duration,
  figure,
  number,
  percent,
  plural,
  share,
  signed,
  tokens,
} from "../../text/numbers";
import { gainFigure } from "../overview/gain";
import { CombinationCard, TunedCard } from "../stages";

function NodeLinks({ nodes }: { nodes: NodeName[] }): JSX.Element {
  return (
    <>
      {nodes.map((node, index) => (
        <a key={node.id} class="mono" href={nodeLink(node.id)} title={node.summary}>
          {index ? ", " : ""}
          {nodeName(node)}
        </a>
      ))}
    </>
  );
}

/** Low and high of a change in percent of what it is held against. */
function effectRow(name: string, change: Parameters<typeof percentEnds>[0], isHeld: boolean): Effects | null {
  if (!change || change.percent === null) return null;
  const [low, high] = percentEnds(change);
  const half = (high - low) / 2;
  return {
    name,
    low,
    middle: change.percent,
    high,
    text: half > 0 ? `${signed(change.percent)} % ± ${number(half, 1)}` : percent(change.percent),
    isHeld,
  };
}

/** Marks of nodes whose score counts for nothing yet, or never. */
const OPEN: ReadonlySet<Mark> = new Set(["held", "open", "rejected"]);

function interval(change: Change): string {
  const shown = change.by_clock ?? change;
  const [low, high] = percentEnds(shown);
  return shown.low === null || shown.percent === null ? "" : `, ${percent(low)} to ${percent(high)}`;
}

function EffectCard({ node }: { node: NodeDetail }): JSX.Element {
  const main = node.metrics.find((metric) => metric.counts) ?? node.metrics[0];
  const isHeld = node.mark === "held";
  if (!main)
    return (
      <Card title="Effect">
        <div class="in">
          <div class="figure">No score</div>
          <p class="mid">
            {node.running
              ? "It is being measured."
              : node.explanation || node.outcome?.ending || "It was not measured."}
          </p>
        </div>
      </Card>
    );
  const paired =
    node.effect && node.effect_percent !== null
      ? { ...node.effect, low: null, high: null, percent: node.effect_percent }
      : null;
  const isPairedWithParent = paired !== null && node.against?.id === node.parent?.id;
  const overParent = isPairedWithParent ? paired : (node.over_parent?.change ?? main.over_parent);
  const rows = [
    effectRow("over its parent", overParent, isHeld),
    node.against && !isPairedWithParent ? effectRow(`over ${nodeName(node.against)}`, paired, isHeld) : null,
    node.is_best ? null : effectRow("over the best", main.over_best, isHeld),
  ].filter((row): row is Effects => row !== null);
  const gain = OPEN.has(node.mark) ? null : main.over_baseline;
  const rate = node.effect
    ? `${plural(node.effect.pairs, "pair")}, error rate ${share(node.effect.error_rate)}`
    : "";
  return (
    <Card title="Effect" more={rate}>
      <div class="in">
        <div class="row base">
          <div class="figure">{node.parent ? gainFigure(gain, null) : "baseline"}</div>
          <span class="mid">
            {node.parent && gain?.is_confirmed !== false && gain ? `over the baseline${interval(gain)}; ` : ""}
            {main.name} {number(main.value, places.value)}
            {node.parent && main.baseline !== null ? ` from ${number(main.baseline, places.value)}` : ""}
          </span>
        </div>
        {rows.length > 0 && <Forest rows={rows} />}
      </div>
      {node.metrics.length > 1 && <MetricTable metrics={node.metrics} />}
    </Card>
  );
}

function MetricTable({ metrics }: { metrics: NodeMetric[] }): JSX.Element {
  return (
    <table>
      <thead>
        <tr>
          <th>Metric</th>
          <th class="num">Here</th>
          <th class="num">Parent</th>
          <th class="num">Change</th>
        </tr>
      </thead>
      <tbody>
        {metrics.map((metric) => (
          <tr key={metric.name}>
            <td class="clip">
              <Said text={metric.name} />
            </td>
            <td class="num" title={`${figure(metric.low)} to ${figure(metric.high)}`}>
              {figure(metric.value)}
            </td>
            <td class="num dim">{figure(metric.parent)}</td>
            <td class="num">{percent(metric.over_parent?.percent ?? null)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function PairsCard({
  title,
  pairs,
  node,
}: {
  title: string;
  pairs: Pairs | null;
  node: NodeDetail;
}): JSX.Element | null {
  if (!pairs?.rows.length) return null;
  const isMin =
    (node.metrics.find((metric) => metric.name === pairs.metric)?.direction ??
      overview.value?.metric.direction) === "min";
  const ahead = pairs.rows.filter((row) => (isMin ? row.mine < row.theirs : row.mine > row.theirs)).length;
  return (
    <Card title={title} more={`ahead in ${ahead} of ${pairs.rows.length}`}>
      <div class="in">
        <div class="pair-names">
          <span class="row">
            <svg class="mark" viewBox="0 0 12 12" aria-hidden="true">
              <circle cx={6} cy={6} r={4} fill="var(--surface)" stroke="var(--ink-3)" stroke-width={1.6} />
            </svg>
            <span class="mono">{nodeName(pairs.incumbent)}</span>
          </span>
          <span class="row">
            <MarkIcon mark={node.mark} />
            this node
          </span>
          <span class="dim">{pairs.metric}</span>
        </div>
        <Dumbbells pairs={pairs} mark={node.mark} />
        {pairs.running.length > 1 && (
          <>
            <h3 class="label">The gain after each pair, with its interval</h3>
            <Sequence pairs={pairs} mark={node.mark} />
          </>
        )}
        {pairs.faults > 0 && (
          <p class="note">{plural(pairs.faults, "measurement")} failed and count for nothing.</p>
        )}
      </div>
    </Card>
  );
}

const PASSED = (passed: boolean | null): string => (passed === null ? "not run" : passed ? "passed" : "failed");

function ChecksCard({ node }: { node: NodeDetail }): JSX.Element {
  const rows: [ComponentChildren, ComponentChildren][] = node.gates.map((gate) => [
    <>
      gate <Said text={gate.name} />
    </>,
    <span key={gate.name} class={gate.passed === false ? "ill" : ""} title={gate.detail}>
      <Said text={gate.text || PASSED(gate.passed)} />
    </span>,
  ]);
  if (node.review)
    rows.push([
      "verifier",
      <span key="v" class={node.review.passed === false ? "ill" : ""}>
        {node.review.passed ? "no objection" : <Said text={node.review.reason || "no answer"} />}
      </span>,
    ]);
  if (node.outcome?.integrity)
    rows.push([
      "integrity",
      node.outcome.integrity === "strong" ? (
        "strong: isolated"
      ) : node.edited ? (
        <span key="w" class="ill">
          weak
          {node.outcome.unenforced.length > 0 && (
            <>
              : <Said text={node.outcome.unenforced.join(", ")} />
            </>
          )}
        </span>
      ) : (
        "weak; only parameters differ"
      ),
    ]);
  for (const again of node.replays)
    rows.push([`measured again, ${clock(again.at)}`, again.score === null ? again.ending : figure(again.score)]);
  for (const look of node.audit)
    rows.push([
      `held-out, ${clock(look.at)}`,
      look.survives === null ? figure(look.held_out) : `${share(look.survives)} survives`,
    ]);
  if (node.withdrawn)
    rows.push(["withdrawn", <Said key="x" text={node.withdrawn.why || node.withdrawn.reason} />]);
  const failing =
    node.gates.some((gate) => gate.passed === false) ||
    node.review?.passed === false ||
    (node.outcome?.integrity === "weak" && node.edited);
  return (
    <Card title="Checks" more={rows.length ? (failing ? "not all hold" : "all hold") : ""}>
      <div class="in">
        {rows.length ? <Facts rows={rows} /> : <p class="mid">No gate, verifier or audit applies to it.</p>}
      </div>
    </Card>
  );
}

function OriginCard({ node }: { node: NodeDetail }): JSX.Element {
  const rows: [ComponentChildren, ComponentChildren][] = [];
  if (node.parent) rows.push(["parent", <NodeLinks key="p" nodes={[node.parent]} />]);
  if (node.parent_reason) rows.push(["chosen as", <Said key="r" text={node.parent_reason} />]);
  if (node.merged.length) rows.push(["together with", <NodeLinks key="m" nodes={node.merged} />]);
  if (node.inspirations.length) rows.push(["shown to it", <NodeLinks key="i" nodes={node.inspirations} />]);
  rows.push(["children", `${node.children.count}, ${node.children.kept.length} kept`]);
  if (node.outcome) rows.push(["ran for", duration(node.outcome.seconds)]);
  rows.push([
    "cost",
    `${node.cost.calls ? `${plural(node.cost.calls, "call")}, ${tokens(node.cost.tokens)} tokens, ` : ""}${dollars(node.cost.money_usd)}`,
  ]);
  rows.push([
    "machine",
    <Said key="f" text={node.other_machine || node.machine || node.outcome?.fingerprint.slice(0, 12) || "–"} />,
  ]);
  if (node.commit)
    rows.push([
      "commit",
      <span key="c" class="mono">
        {node.commit.slice(0, 12)}
      </span>,
    ]);
  return (
    <Card title="Lineage and fingerprint">
      <div class="in">
        <Facts rows={rows} />
      </div>
    </Card>
  );
}

export function NodeSide({ node }: { node: NodeDetail }): JSX.Element {
  return (
    <div class="node-side">
      <EffectCard node={node} />
      <PairsCard title="The judge's pairs" pairs={node.pairs} node={node} />
      <PairsCard title="Fresh pairs against the baseline" pairs={node.confirmation} node={node} />
      {node.tuned && <TunedCard tuned={node.tuned} params={node.params} />}
      <CombinationCard combines={node.combines} combinedBy={[]} />
      <ChecksCard node={node} />
      <OriginCard node={node} />
    </div>
  );
}
