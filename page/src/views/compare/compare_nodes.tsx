/** Two nodes: what differs, measured side by side. */

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { address } from "../../api/client";
import type { Comparison, Side } from "../../api/node";
import { IntervalCell, percentEnds } from "../../charts/interval";
import { DiffView } from "../../diff/diff_view";
import { Card, Empty, Facts, Scroll, Wait } from "../../parts/blocks";
import { MarkIcon } from "../../parts/marks";
import { Said } from "../../parts/said";
import { useQuery } from "../../state/query";
import { go, link, nodeLink, route } from "../../state/route";
import { overview, places } from "../../state/store";
import { valueText } from "../../text/hostile";
import { nodeName } from "../../text/ids";
import { dollars, figure, number, percent, plural } from "../../text/numbers";
import { PickNode } from "./pick_node";

function SideCard({
  side,
  letter,
  onPick,
}: {
  side: Side;
  letter: "A" | "B";
  onPick(id: string): void;
}): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const isOther = side.run !== overview.value?.run;
  return (
    <section class="card side-card">
      <div class="in">
        <div class="row">
          <span class="side-letter">{letter}</span>
          <a class="mono clip" href={nodeLink(side.id)}>
            {nodeName(side)}
          </a>
          {isOther && <span class="dim">run {side.run}</span>}
          <button type="button" class="btn quiet low end" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            Change
          </button>
        </div>
        {isOpen && (
          <PickNode
            letter={letter}
            onClose={() => setOpen(false)}
            onPick={(id) => {
              setOpen(false);
              onPick(id);
            }}
          />
        )}
        <div class="row">
          <MarkIcon mark={side.mark} />
          <b class="clip">
            <Said text={side.summary || "the baseline"} />
          </b>
        </div>
        <div class="row base">
          <span class="figure">{number(side.score, places.value)}</span>
          <span class="dim">
            {side.half !== null && side.half > 0 ? `± ${figure(side.half)}, ` : ""}
            {plural(side.measurements, "measurement")}, <Said text={side.operator} />
          </span>
        </div>
      </div>
    </section>
  );
}

const VERDICTS = {
  better: ["▲ better", "good"],
  worse: ["▼ worse", "ill"],
  same: ["= no difference seen", "dim"],
  unknown: ["not measured", "dim"],
} as const;

function Measured({ data }: { data: Comparison }): JSX.Element {
  return (
    <Card title="Measured side by side" more="B against A, with intervals; right is better">
      <Scroll label="Metrics side by side">
        <table>
          <thead>
            <tr>
              <th>Metric</th>
              <th class="num">A</th>
              <th class="num">B</th>
              <th class="num">B against A</th>
              <th>Interval</th>
              <th>Verdict</th>
            </tr>
          </thead>
          <tbody>
            {data.metrics.map((metric) => {
              const change = metric.change;
              const [low, high] = percentEnds(change);
              const [words, tone] = VERDICTS[metric.verdict];
              return (
                <tr key={metric.name}>
                  <td>
                    <Said text={metric.name} />
                  </td>
                  <td class="num">{figure(metric.a)}</td>
                  <td class="num">{figure(metric.b)}</td>
                  <td class="num nowrap">
                    <b>{percent(change?.percent)}</b>{" "}
                    <span class="dim">
                      {metric.exact ? "exact" : high > low ? `± ${number((high - low) / 2, 1)}` : ""}
                    </span>
                  </td>
                  <td>
                    {change?.percent !== null && change?.percent !== undefined && (
                      <IntervalCell low={low} middle={change.percent} high={high} />
                    )}
                  </td>
                  <td class={`nowrap ${tone}`}>{words}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </Scroll>
    </Card>
  );
}

function Differs({ data }: { data: Comparison }): JSX.Element {
  const { a, b } = data;
  const params = Object.entries(data.params);
  const rows: [ComponentChildren, ComponentChildren][] = [
    [
      "files",
      data.files.length
        ? data.files.map((file) => (
            <div key={file.path}>
              <Said text={file.path} />{" "}
              <span class="dim">
                +{file.added} −{file.removed}
              </span>
            </div>
          ))
        : "none",
    ],
    [
      "parameters",
      params.length
        ? params.map(([name, pair]) => (
            <div key={name} class="mono">
              <Said text={`${name} ${valueText(pair.before)} → ${valueText(pair.after)}`} />
            </div>
          ))
        : "none",
    ],
    ["made by", <Said key="o" text={`${a.operator || "–"}, ${b.operator || "–"}`} />],
    ["machine", a.fingerprint === b.fingerprint ? "the same: comparable" : "two machines"],
    ["cost", `${dollars(a.cost_usd)} and ${dollars(b.cost_usd)}`],
  ];
  return (
    <Card
      title="What differs"
      more={
        data.ancestor
          ? `common ancestor: ${data.ancestor.id === a.id ? "A" : data.ancestor.id === b.id ? "B" : nodeName(data.ancestor)}`
          : ""
      }
    >
      <div class="in">
        <Facts rows={rows} />
      </div>
    </Card>
  );
}

export function CompareNodes({ seg }: { seg: JSX.Element }): JSX.Element {
  const { query } = route.value;
  const gain = overview.value?.gain;
  const b = query.get("b") ?? gain?.best?.node ?? null;
  const a =
    query.get("a") ?? (gain?.before && gain.before.node !== b ? gain.before.node : gain?.baseline?.node) ?? null;
  const { data, error } = useQuery<Comparison>(a && b ? address("/api/compare", { a, b }) : null, { every: 0 });
  const pick = (left: string, right: string): void => go(link("compare", [], { a: left, b: right }));
  if (!a || !b)
    return overview.value ? (
      <Empty title="Two nodes are needed">
        <p>As soon as something is kept, it is held against the baseline here.</p>
      </Empty>
    ) : (
      <Wait error="" />
    );
  if (!data) return <Wait error={error} />;
  return (
    <div class="grid">
      <div class="row apart wrap">
        <h2 class="title">
          <Said text={data.sentence} />
        </h2>
        {seg}
      </div>
      {!data.comparable && (
        <div class="alert">
          <span>
            <b>Not comparable.</b> <Said text={data.why_not} />
          </span>
        </div>
      )}
      <div class="grid half">
        <SideCard side={data.a} letter="A" onPick={(id) => pick(id, b)} />
        <SideCard side={data.b} letter="B" onPick={(id) => pick(a, id)} />
      </div>
      <div class="grid two">
        <Measured data={data} />
        <Differs data={data} />
      </div>
      <Card title="From A to B">
        <DiffView patch={data.patch} cut={data.cut} />
      </Card>
    </div>
  );
}
