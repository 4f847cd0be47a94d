/** What worked, where the time went, what each role cost, and how the budget burns down. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { Mark } from "../../api/names";
import type { Overview } from "../../api/overview";
import { LineNames, Lines, type Series } from "../../charts/lines";
import { Card, Facts } from "../../parts/blocks";
import { colourOf, MarkIcon } from "../../parts/marks";
import { Said } from "../../parts/said";
import { link, nodeLink } from "../../state/route";
import { clock, count, dollars, duration, fixed, percent, plural, tokens } from "../../text/numbers";

export function WorkedCard({ seen }: { seen: Overview }): JSX.Element {
  return (
    <Card
      title="What worked"
      more={<a href={link("tree")}>{plural(Math.max(0, (seen.counts.kept ?? 0) - 1), "step")} in the tree</a>}
    >
      <ul class="feed">
        {seen.worked.slice(0, 7).map((row) => (
          <li key={row.node.id}>
            <a href={nodeLink(row.node.id)}>
              <b class="nowrap">{percent(row.gain_percent)}</b>
              <Said class="clip" text={row.node.summary} />
              <span class="dim nowrap">{clock(row.at)}</span>
            </a>
          </li>
        ))}
        {!seen.worked.length && <li class="dim pad">Nothing beats the baseline yet.</li>}
      </ul>
    </Card>
  );
}

const CAUSE_MARKS: [RegExp, Mark][] = [
  [/^gain/, "kept"],
  [/repeat|noise|confirm/, "inconclusive"],
  [/fail|time|crash|broke|error/, "failed"],
  [/reject|gate|refus|verif/, "rejected"],
  [/control/, "control"],
  [/prun/, "pruned"],
];

export const markOfCause = (cause: string): Mark =>
  CAUSE_MARKS.find(([pattern]) => pattern.test(cause))?.[1] ?? "discarded";

export function TimeCard({ seen }: { seen: Overview }): JSX.Element {
  const { goodput } = seen;
  const total = goodput.time.reduce((sum, row) => sum + row.seconds, 0) || 1;
  const part = (seconds: number): string => `${fixed((seconds / total) * 100, 0)} %`;
  const rate =
    goodput.per_hour === null
      ? plural(goodput.results, "result")
      : `${fixed(goodput.per_hour, goodput.per_hour < 10 ? 1 : 0)} results an hour`;
  const hints: string[] = [];
  if (goodput.trial_slots_busy !== null)
    hints.push(`trial slots busy ${fixed(goodput.trial_slots_busy * 100, 0)} %`);
  if (goodput.model_slots_busy !== null) hints.push(`model slots ${fixed(goodput.model_slots_busy * 100, 0)} %`);
  if (goodput.refused) hints.push(`${plural(goodput.refused, "proposal")} refused before running`);
  return (
    <Card title="Where the time went" more={rate}>
      <div class="in">
        <div
          class="stack"
          role="img"
          aria-label={
            goodput.time.map((row) => `${row.cause} ${part(row.seconds)}`).join(", ") || "no time spent yet"
          }
        >
          {goodput.time.map((row) => {
            const mark = markOfCause(row.cause);
            return (
              <i
                key={row.cause}
                style={{
                  width: `${(row.seconds / total) * 100}%`,
                  background: colourOf(mark),
                  opacity: mark === "discarded" || mark === "control" ? 0.5 : 0.85,
                }}
              />
            );
          })}
        </div>
        <Facts
          rows={goodput.time.map((row) => [
            <>
              <MarkIcon mark={markOfCause(row.cause)} />
              {row.cause}
            </>,
            <>
              <span class="dim">{duration(row.seconds)} </span>
              {part(row.seconds)}
            </>,
          ])}
        />
        {hints.length > 0 && <p class="note">{hints.join(", ")}.</p>}
      </div>
    </Card>
  );
}

export function RolesCard({ seen }: { seen: Overview }): JSX.Element {
  const { cost } = seen;
  return (
    <Card
      title="Cost by role"
      more={cost.per_kept_usd === null ? "" : `${dollars(cost.per_kept_usd)} per kept gain`}
    >
      <div class="in">
        {cost.roles.length ? (
          <Facts
            rows={cost.roles.map((role) => [
              <Said key={role.role} text={role.model ? `${role.role}, ${role.model}` : role.role} />,
              <>
                <span class="dim">{tokens(role.tokens)} </span>
                <b>{dollars(role.money_usd)}</b>
                {role.cap_usd !== null && <span class="dim"> of {dollars(role.cap_usd)}</span>}
              </>,
            ])}
          />
        ) : (
          <p class="mid">
            No model was asked: these experiments cost machine time alone, {duration(seen.goodput.busy_seconds)} so
            far.
          </p>
        )}
      </div>
    </Card>
  );
}

/** What is left over time, as a share of each pool. */
export function BurnCard({ seen }: { seen: Overview }): JSX.Element {
  const { cost, started_at: start } = seen;
  const plot = useMemo(() => {
    const limits: [string, string, "money_usd" | "tokens" | "attempts", string][] = [
      ["Money", "money", "money_usd", "kept"],
      ["Tokens", "tokens", "tokens", "inconclusive"],
      ["Attempts", "attempts", "attempts", "ink-2"],
    ];
    const series: Series[] = limits.flatMap(([name, pool, field, colour]) => {
      const limit = cost.pools.find((row) => row.pool === pool)?.limit;
      return limit
        ? [
            {
              name,
              colour,
              values: cost.burn.map((row) => Math.max(0, 100 - (row[field] / limit) * 100)),
              isDashed: field === "attempts",
            },
          ]
        : [];
    });
    return { x: cost.burn.map((row) => row.at - start), series };
  }, [cost, start]);
  const hasLines = plot.series.length > 0 && plot.x.length > 1;
  return (
    <Card title="What is left over time" more="% of each pool">
      <div class="in">
        {hasLines ? (
          <>
            <Lines
              x={plot.x}
              series={plot.series}
              height={150}
              label={`What is left of ${plot.series.map((line) => line.name.toLowerCase()).join(", ")} since the start`}
              xText={(value) => duration(value)}
              yText={(value) => `${count(value)} %`}
            />
            <LineNames series={plot.series} />
          </>
        ) : (
          <p class="mid">No pool with a limit has been drawn on yet.</p>
        )}
      </div>
    </Card>
  );
}
