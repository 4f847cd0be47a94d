/** What happens before and after the search itself: the tuning of parameters, and the combination of nodes. */

import type { ComponentChildren, JSX } from "preact";
import type { Tuned } from "../api/node";
import type { Combination, Tuning } from "../api/overview";
import { Card, Facts } from "../parts/blocks";
import { Said } from "../parts/said";
import { nodeLink } from "../state/route";
import { showRun } from "../state/store";
import { nodeName } from "../text/ids";
import { count, duration, figure, fixed, number, plural } from "../text/numbers";

type Rows = [ComponentChildren, ComponentChildren][];

/** The share of a trial's time: `2.5 %`. */
const costShare = (value: number): string => `${fixed(value * 100, value < 0.1 ? 1 : 0)} %`;

export function TuningCard({ tuning }: { tuning: Tuning }): JSX.Element {
  const { prediction } = tuning;
  const rows: Rows = [
    ["nodes tuned", `${count(tuning.tuned)}, ${count(tuning.moved)} changed by it`],
    ["tune trials", `${count(tuning.trials)} in ${duration(tuning.seconds)}`],
  ];
  if (tuning.share !== null) rows.push(["a tune trial costs", `${costShare(tuning.share)} of a trial`]);
  if (prediction && prediction.value !== null)
    rows.push([
      "rank correlation with the whole",
      <>
        {number(prediction.value, 2)}{" "}
        <span class="dim">
          ({prediction.low === null ? "?" : number(prediction.low, 2)} to{" "}
          {prediction.high === null ? "?" : number(prediction.high, 2)}, {plural(prediction.count, "node")})
        </span>
      </>,
    ]);
  return (
    <Card
      title="Tuning"
      more={
        <>
          on slice <Said text={tuning.slice} />
        </>
      }
    >
      <div class="in">
        <Facts rows={rows} />
        {tuning.advice && (
          <p class="note">
            <Said text={tuning.advice} />
          </p>
        )}
      </div>
    </Card>
  );
}

export function TunedCard({ tuned, params }: { tuned: Tuned; params: Record<string, unknown> }): JSX.Element {
  const rows: Rows = [["as proposed", figure(tuned.proposed_score)]];
  const isBetter = tuned.score !== null && tuned.score !== tuned.proposed_score;
  rows.push(["as promoted", isBetter ? figure(tuned.score) : "nothing better found"]);
  for (const [name, before] of Object.entries(tuned.proposed))
    if (params[name] !== before)
      rows.push([
        <Said key={name} text={name} />,
        <>
          <Said text={String(before)} /> → <Said text={String(params[name] ?? null)} />
        </>,
      ]);
  return (
    <Card
      title="Tuned before its attempt"
      more={
        <>
          {plural(tuned.trials, "trial")} on slice <Said text={tuned.slice} />
        </>
      }
    >
      <div class="in">
        <Facts rows={rows} />
        <p class="note">
          <Said text={tuned.reason} />. Scores on the slice are no results: nothing ranks them.
        </p>
      </div>
    </Card>
  );
}

/** The members of a pool, and the way to the runs that combine or are combined. */
export function CombinationCard({
  combines,
  combinedBy,
}: {
  combines: Combination | null;
  combinedBy: number[];
}): JSX.Element | null {
  if (!combines && !combinedBy.length) return null;
  const toRun = (run: number): JSX.Element => (
    <button key={run} type="button" class="btn low" onClick={() => showRun(run)}>
      Show run {run}
    </button>
  );
  return (
    <Card
      title="Combination"
      more={combines ? `${plural(combines.members.length, "node")} of run ${combines.run}` : "a second stage"}
    >
      {combines && (
        <ul class="feed">
          {combines.members.map((member) => (
            <li key={member.node.id}>
              <a href={nodeLink(member.node.id)}>
                <b class="mono nowrap">{nodeName(member.node)}</b>
                <Said class="clip" text={member.reason || member.node.summary} />
                <span class="dim nowrap">{figure(member.score)}</span>
              </a>
            </li>
          ))}
        </ul>
      )}
      <div class="in row wrap">
        {combines && toRun(combines.run)}
        {combinedBy.length > 0 && (
          <>
            <span class="mid">Nodes of this run are combined.</span>
            {combinedBy.map(toRun)}
          </>
        )}
      </div>
    </Card>
  );
}
