/** Which way of proposing earns its keep: credit over time. */

import type { JSX } from "preact";
import { address } from "../../api/client";
import type { Operator, Operators } from "../../api/tables";
import { CreditChart } from "../../charts/credit";
import { clamp } from "../../charts/scale";
import { Card, Empty, Scroll, Wait } from "../../parts/blocks";
import { Since } from "../../parts/clock";
import { Said } from "../../parts/said";
import { useQuery } from "../../state/query";
import { overview, shownRun } from "../../state/store";
import { count, dollars, duration, fixed, percent, plural, share, tokens } from "../../text/numbers";
import { TuningCard } from "../stages";

const WIDE = 120;

/** The share of kept nodes with its interval. */
export function RateCell({
  row,
  most,
}: {
  row: Pick<Operator, "rate" | "rate_low" | "rate_high">;
  most: number;
}): JSX.Element | null {
  if (row.rate === null || row.rate_low === null || row.rate_high === null) return null;
  const x = (value: number): number => 4 + clamp(value / most, 0, 1) * (WIDE - 8);
  return (
    <svg class="rate" width={WIDE} height={16} viewBox={`0 0 ${WIDE} 16`} aria-hidden="true">
      <path d={`M0 8H${WIDE}`} stroke="var(--line)" />
      <rect
        x={x(row.rate_low)}
        y={3}
        width={Math.max(2, x(row.rate_high) - x(row.rate_low))}
        height={10}
        rx={2}
        fill="var(--kept)"
        opacity={0.25}
      />
      <circle cx={x(row.rate)} cy={8} r={3.6} fill="var(--kept)" />
    </svg>
  );
}

function Credits({ operators }: { operators: Operator[] }): JSX.Element {
  const most = Math.max(1, ...operators.map((row) => row.gain_percent));
  const lastOrder = Math.max(1, ...operators.flatMap((row) => row.credit.map((step) => step.order)));
  const shown = [...operators]
    .filter((row) => row.credit.length)
    .sort((a, b) => b.gain_percent - a.gain_percent || b.kept - a.kept);
  return (
    <div class="grid three">
      {shown.slice(0, 9).map((row) => (
        <Card
          key={`${row.name} ${row.pool}`}
          title={
            <>
              <Said text={row.name} />
              {row.pool === "control" && <span class="dim"> control</span>}
            </>
          }
          more={row.bests ? `${percent(row.gain_percent)} in ${plural(row.bests, "step")}` : "no new best"}
        >
          <div class="slice">
            <CreditChart operator={row} lastOrder={lastOrder} most={most} />
          </div>
        </Card>
      ))}
    </div>
  );
}

function Row({ row, most }: { row: Operator; most: number }): JSX.Element {
  return (
    <tr>
      <td class="nowrap">
        <b>
          <Said text={row.name} />
        </b>
        {row.pool === "control" && <span class="dim"> {row.pool}</span>}
      </td>
      <td class="num">{count(row.nodes)}</td>
      <td class="num">{count(row.kept)}</td>
      <td class="nowrap">
        <RateCell row={row} most={most} /> <span class="dim">{share(row.rate)}</span>
      </td>
      <td class="num">{count(row.bests)}</td>
      <td class={`num ${row.gain_percent > 0 ? "good" : ""}`}>{row.bests ? percent(row.gain_percent) : "–"}</td>
      <td class="num">{count(row.failed + row.rejected)}</td>
      <td class="num">{count(row.refused)}</td>
      <td class="num nowrap">{duration(row.seconds)}</td>
      <td class="num">{row.tokens ? tokens(row.tokens) : "–"}</td>
      <td class="num">{row.money_usd ? dollars(row.money_usd) : "–"}</td>
      <td class="num dim nowrap">
        {row.last_at ? (
          <>
            <Since at={row.last_at} /> ago
          </>
        ) : (
          "–"
        )}
      </td>
    </tr>
  );
}

export function OperatorsView(): JSX.Element {
  const { data, error } = useQuery<Operators>(address("/api/operators", { run: shownRun.value }), { every: 4 });
  if (!data) return <Wait error={error} />;
  if (!data.operators.length)
    return (
      <Empty title="No operator has proposed yet">
        <p>Each way of proposing a change shows here with what it earned.</p>
      </Empty>
    );
  const most = Math.max(0.05, ...data.operators.map((row) => row.rate_high ?? 0));
  const best = [...data.operators].sort((a, b) => b.gain_percent - a.gain_percent)[0];
  return (
    <div class="grid">
      <h2 class="title">
        {best && best.gain_percent > 0 ? (
          <>
            <Said text={best.name} /> earned most: <span class="good">{percent(best.gain_percent)}</span> in{" "}
            {fixed(best.bests, 0)} {best.bests === 1 ? "step" : "steps"}
          </>
        ) : (
          "No operator has found a gain yet"
        )}
      </h2>
      {data.rung && (
        <p class="mid">
          <Said text={data.rung} />
        </p>
      )}
      <p class="mid">The gain of each operator's new bests, added up; the thin line counts its tries.</p>
      <Credits operators={data.operators} />
      {overview.value?.tuning && <TuningCard tuning={overview.value.tuning} />}
      <Card title="Operators" more="share kept with its 95 % interval">
        <Scroll label="Operators">
          <table>
            <thead>
              <tr>
                <th>Operator</th>
                <th class="num">Nodes</th>
                <th class="num">Kept</th>
                <th>Share kept</th>
                <th class="num">New bests</th>
                <th class="num">Gain</th>
                <th class="num">Failed</th>
                <th class="num">Refused</th>
                <th class="num">Trial time</th>
                <th class="num">Tokens</th>
                <th class="num">Cost</th>
                <th class="num">Last</th>
              </tr>
            </thead>
            <tbody>
              {data.operators.map((row) => (
                <Row key={`${row.name} ${row.pool}`} row={row} most={most} />
              ))}
            </tbody>
          </table>
        </Scroll>
      </Card>
    </div>
  );
}
