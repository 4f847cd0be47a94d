/** How much better, with its interval. */

import type { JSX } from "preact";
import type { Change } from "../../api/names";
import type { Overview } from "../../api/overview";
import { Ruler } from "../../charts/ruler";
import { Said } from "../../parts/said";
import { nodeLink } from "../../state/route";
import { places } from "../../state/store";
import { figure, number, percent, plural, times } from "../../text/numbers";

function heading(change: Change | null): string {
  if (change?.by_clock) return "Gain over the baseline, by the clock";
  if (!change?.is_confirmed) return "Gain over the baseline";
  return (change.low ?? 0) > 0 ? "Confirmed gain over the baseline" : "Gain over the baseline, not significant";
}

/** The gain where it is known how sure it is; a score is none. */
export function gainFigure(change: Change | null, factor: number | null): string {
  if (!change || change.is_confirmed === false) return "not confirmed";
  const shown = change.by_clock ?? change;
  if (factor !== null) return times(factor);
  return shown.percent === null ? `${shown.amount > 0 ? "+" : ""}${figure(shown.amount)}` : percent(shown.percent);
}

function VersionLead({ seen }: { seen: Overview }): JSX.Element | null {
  const lead = seen.version_lead;
  if (!lead) return null;
  return (
    <p class="mid version-lead">
      <a href={nodeLink(lead.node.id)}>A past version leads</a>: <Said text={lead.text} />
    </p>
  );
}

export function GainCard({ seen }: { seen: Overview }): JSX.Element {
  const { gain, metric } = seen;
  const base = gain.baseline;
  if (!base)
    return (
      <section>
        <div class="label">Gain over the baseline</div>
        <div class="figure">No baseline yet</div>
        <p class="mid">
          {seen.phase
            ? `It is measured now: ${seen.phase.step}${seen.phase.steps ? ` of ${seen.phase.steps}` : ""}.`
            : "It is measured first, before any experiment."}
        </p>
      </section>
    );
  if (!gain.best || gain.best.node === base.node)
    return (
      <section>
        <div class="label">Gain over the baseline</div>
        <div class="headline">
          <div class="big">none yet</div>
          <div class="beside">
            <div>
              <b>{number(base.score, places.value)}</b> {metric.name},{" "}
              {metric.direction === "max" ? "more" : "less"} is better
            </div>
            <div>{plural(seen.nodes, "experiment")} so far</div>
          </div>
        </div>
        <VersionLead seen={seen} />
      </section>
    );
  const change = gain.best.over_baseline;
  return (
    <section>
      <div class="label">{heading(change)}</div>
      <div class="headline">
        <a class="big" href={nodeLink(gain.best.node)}>
          {gainFigure(change, gain.factor)}
        </a>
        <div class="beside">
          <div>
            <Said text={gain.words} />
          </div>
          <div>
            {metric.name} {number(gain.best.score, places.value)} from {number(base.score, places.value)}
            {change?.is_confirmed === null && !change.by_clock && "; exact: results do not vary"}
          </div>
        </div>
      </div>
      <VersionLead seen={seen} />
      <Ruler gain={gain} places={places.value} />
    </section>
  );
}
