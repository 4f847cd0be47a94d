/** Two runs: the same figures in two columns, and both ways to the best in one chart. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { address } from "../../api/client";
import type { RunComparison, RunSide } from "../../api/node";
import { LineNames, Lines, type Series } from "../../charts/lines";
import { Card, Empty, Scroll, Seg, Wait } from "../../parts/blocks";
import { Said } from "../../parts/said";
import { useQuery } from "../../state/query";
import { go, link, nodeLink, route } from "../../state/route";
import { session } from "../../state/store";
import { clock, count, dollars, duration, figure, percent, tokens } from "../../text/numbers";

type By = "order" | "at" | "cost";

/** Two step lines on one axis: each keeps its value until its next step, and ends with its last. */
export function joinSteps(
  a: RunSide["curve"],
  b: RunSide["curve"],
  by: By,
): { x: number[]; a: (number | null)[]; b: (number | null)[] } {
  const x = [...new Set([...a, ...b].map((step) => step[by]))].sort((left, right) => left - right);
  const along = (steps: RunSide["curve"]): (number | null)[] => {
    let at = 0;
    let value: number | null = null;
    const end = steps[steps.length - 1]?.[by] ?? 0;
    return x.map((place) => {
      while (at < steps.length && (steps[at]?.[by] ?? 0) <= place) {
        value = steps[at]?.score ?? value;
        at += 1;
      }
      return place > end && steps.length ? null : value;
    });
  };
  return { x, a: along(a), b: along(b) };
}

/** The curve with its last value held to the end of the run. */
function toItsEnd(side: RunSide): RunSide["curve"] {
  const last = side.curve[side.curve.length - 1];
  if (!last) return side.curve;
  return [
    ...side.curve,
    {
      order: Math.max(side.nodes, last.order),
      at: Math.max(side.elapsed_seconds, last.at),
      cost: Math.max(side.money_usd, last.cost),
      score: last.score,
    },
  ];
}

function RunSelect({
  letter,
  value,
  onPick,
}: {
  letter: string;
  value: number;
  onPick(run: number): void;
}): JSX.Element {
  return (
    <label class="row">
      <span class="side-letter">{letter}</span>
      <select
        class="btn"
        value={String(value)}
        onChange={(event) => onPick(Number(event.currentTarget.value))}
        aria-label={`Run ${letter}`}
      >
        {session.value?.runs.map((run) => (
          <option key={run.run} value={String(run.run)}>
            run {run.run}, {clock(run.started_at)}
          </option>
        ))}
      </select>
    </label>
  );
}

const ROWS: [string, (side: RunSide) => JSX.Element | string][] = [
  ["state", (side) => side.state],
  ["why it began", (side) => <Said text={side.why || "–"} />],
  ["best", (side) => (side.best ? <a href={nodeLink(side.best.node)}>{figure(side.best.score)}</a> : "–")],
  ["baseline", (side) => figure(side.baseline)],
  ["gain over the baseline", (side) => percent(side.best?.over_baseline?.percent)],
  ["uplift over control", (side) => <Said text={side.uplift || "–"} />],
  ["experiments", (side) => count(side.nodes)],
  ["kept", (side) => count(side.counts.kept ?? 0)],
  ["failed", (side) => count(side.counts.failed ?? 0)],
  ["time", (side) => duration(side.elapsed_seconds)],
  ["results an hour", (side) => figure(side.per_hour)],
  ["tokens", (side) => tokens(side.tokens)],
  ["cost", (side) => dollars(side.money_usd)],
  ["proposers", (side) => <Said class="free" text={side.proposers.join(", ") || "–"} />],
  ["machine", (side) => <Said text={side.machine.slice(0, 40) || "–"} />],
];

export function CompareRuns({ seg }: { seg: JSX.Element }): JSX.Element {
  const [by, setBy] = useState<By>("order");
  const runs = session.value?.runs ?? [];
  const last = runs[runs.length - 1]?.run ?? 1;
  const b = Number(route.value.query.get("b") ?? last);
  const a = Number(route.value.query.get("a") ?? runs[runs.length - 2]?.run ?? last);
  const { data, error } = useQuery<RunComparison>(
    runs.length > 1 ? address("/api/compare-runs", { a, b }) : null,
    { every: 5 },
  );
  const plot = useMemo(() => {
    if (!data) return null;
    const joined = joinSteps(toItsEnd(data.a), toItsEnd(data.b), by);
    const series: Series[] = [
      { name: `A, run ${data.a.run}`, colour: "ink-3", values: joined.a, isStep: true },
      { name: `B, run ${data.b.run}`, colour: "kept", values: joined.b, isStep: true },
    ];
    return { x: joined.x, series };
  }, [data, by]);
  const pick = (left: number, right: number): void =>
    go(link("compare", ["runs"], { a: String(left), b: String(right) }));
  const xText = (value: number): string =>
    by === "order" ? count(value) : by === "at" ? duration(value) : dollars(value);
  if (runs.length < 2)
    return (
      <>
        <div class="row apart">
          <h2 class="title">There is one run</h2>
          {seg}
        </div>
        <Empty title="Two runs are needed">
          <p>A second one begins when the benchmark or the task changes, or with loopty run --new-run.</p>
        </Empty>
      </>
    );
  return (
    <div class="grid">
      <div class="row apart wrap">
        <h2 class="title">{data ? <Said text={data.sentence} /> : "Two runs"}</h2>
        {seg}
      </div>
      <div class="row wrap">
        <RunSelect letter="A" value={a} onPick={(run) => pick(run, b)} />
        <RunSelect letter="B" value={b} onPick={(run) => pick(a, run)} />
      </div>
      {data && !data.comparable && (
        <div class="alert">
          <span>
            <b>Their scores cannot be held against each other.</b> What differs:{" "}
            <Said text={data.differs.join(", ") || "the criteria"} />.
          </span>
        </div>
      )}
      {!data ? (
        <Wait error={error} />
      ) : (
        <div class="grid half runs">
          <Card
            title="Best so far"
            tools={
              <Seg<By>
                name="Horizontal axis"
                options={[
                  ["order", "Experiment"],
                  ["at", "Time"],
                  ["cost", "Cost"],
                ]}
                value={by}
                onPick={setBy}
              />
            }
          >
            <div class="in">
              {plot && (
                <Lines
                  x={plot.x}
                  series={plot.series}
                  height={280}
                  label="Best so far of both runs"
                  xText={xText}
                  yText={figure}
                />
              )}
              {plot && <LineNames series={plot.series} />}
            </div>
          </Card>
          <Card title="Figures">
            <Scroll label="Figures of both runs">
              <table>
                <thead>
                  <tr>
                    <th>Figure</th>
                    <th class="num">A</th>
                    <th class="num">B</th>
                  </tr>
                </thead>
                <tbody>
                  {ROWS.map(([name, cell]) => (
                    <tr key={name}>
                      <td class="dim">{name}</td>
                      <td class="num">{cell(data.a)}</td>
                      <td class="num">{cell(data.b)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Scroll>
          </Card>
        </div>
      )}
    </div>
  );
}
