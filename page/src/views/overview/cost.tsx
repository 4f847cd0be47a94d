/** What it cost, what is left, and which pool ends first. */

import type { JSX } from "preact";
import { ask } from "../../actions/asked";
import type { Overview, Pool } from "../../api/overview";
import { canAct } from "../../state/store";
import { clock, count, dollarLimit, dollars, duration, tokens } from "../../text/numbers";

export const POOL_NAMES: Record<string, string> = {
  money: "Money",
  attempts: "Attempts",
  control: "Control",
  repeats: "Repeats",
  tunes: "Tune trials",
  time: "Time",
  tokens: "Tokens",
};

export function amount(pool: Pick<Pool, "unit">, value: number): string {
  switch (pool.unit) {
    case "usd":
      return dollars(value);
    case "seconds":
      return duration(value);
    case "tokens":
      return tokens(value);
    case "trials":
      return count(value);
  }
}

function Bar({ pool, isFirst }: { pool: Pool; isFirst: boolean }): JSX.Element {
  const part = (value: number): string => `${Math.max(0, Math.min(100, (value / (pool.limit || 1)) * 100))}%`;
  if (!pool.limit) return <div class="bar" />;
  return (
    <div class={`bar ${isFirst ? "first" : ""}`}>
      {pool.forecast_used !== null && <i class="forecast" style={{ width: part(pool.forecast_used) }} />}
      <i style={{ width: part(pool.used) }} />
    </div>
  );
}

export function CostCard({ seen }: { seen: Overview }): JSX.Element {
  const { cost } = seen;
  const first = cost.ends_first;
  const money = cost.pools.find((pool) => pool.pool === "money");
  const attempts = cost.pools.find((pool) => pool.pool === "attempts");
  const isFree = cost.money_usd === 0 && !money?.limit;
  const big = isFree
    ? cost.tokens
      ? `${tokens(cost.tokens)} tokens`
      : `${count(attempts?.used ?? 0)} attempts`
    : dollars(cost.money_usd);
  const limit = isFree ? (cost.tokens ? null : attempts?.limit) : money?.limit;
  const limitText = limit ? `of ${isFree ? count(limit) : dollarLimit(limit)}` : "";
  return (
    <section>
      <div class="label row apart">
        Cost, and what is left
        <button type="button" class="text-button" disabled={!canAct.value} onClick={() => ask("budget")}>
          Change
        </button>
      </div>
      <div class="row base">
        <div class="figure nowrap">{big}</div>
        <div class="mid">
          {limitText}
          {first && (
            <>
              {limitText ? ", " : ""}
              {first.at === null ? (
                `${(POOL_NAMES[first.pool] ?? first.pool).toLowerCase()} ends first`
              ) : (
                <>
                  ends first: about <b>{clock(first.at)}</b>
                </>
              )}
            </>
          )}
        </div>
      </div>
      <div class="bars">
        {cost.pools
          .filter((pool) => pool.limit !== null || pool.used > 0)
          .map((pool) => {
            const isFirst = first?.pool === pool.pool;
            const name = isFirst ? "first" : "mid";
            return (
              <>
                <span key={`${pool.pool} name`} class={name}>
                  {POOL_NAMES[pool.pool] ?? pool.pool}
                </span>
                <Bar key={`${pool.pool} bar`} pool={pool} isFirst={isFirst} />
                <span key={pool.pool} class={`${name} nowrap`}>
                  {pool.left === null ? `${amount(pool, pool.used)}, no limit` : `${amount(pool, pool.left)} left`}
                </span>
              </>
            );
          })}
      </div>
      {cost.unpriced_calls > 0 && <p class="dim small">{count(cost.unpriced_calls)} calls have no known price.</p>}
    </section>
  );
}
