/** How much better, with its interval. */

import type { JSX } from "preact";
import type { Overview } from "../../api/overview";
import { Ruler } from "../../charts/ruler";
import { Said } from "../../parts/said";
import { nodeLink } from "../../state/route";
import { places } from "../../state/store";
import { number, plural, times } from "../../text/numbers";

function heading(seen: Overview): string {
  const isConfirmed = seen.gain.best?.over_baseline?.is_confirmed;
  if (isConfirmed === false) return "Gain over the baseline, not confirmed yet";
  return isConfirmed ? "Confirmed gain over the baseline" : "Gain over the baseline";
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
  return (
    <section>
      <div class="label">{heading(seen)}</div>
      <div class="headline">
        <a class="big" href={nodeLink(gain.best.node)}>
          {gain.factor === null ? number(gain.best.score, places.value) : times(gain.factor)}
        </a>
        <div class="beside">
          <div>
            <b>{number(gain.best.score, places.value)}</b> {metric.name} from {number(base.score, places.value)}
          </div>
          <div>
            {gain.factor_low !== null && gain.factor_high !== null
              ? `interval ${times(gain.factor_low)} to ${times(gain.factor_high)}`
              : gain.best.over_baseline?.pairs
                ? plural(gain.best.over_baseline.pairs, "pair")
                : gain.best.over_baseline?.is_confirmed !== false
                  ? "exact: results do not vary"
                  : "no interval yet: not measured beside the baseline"}
          </div>
        </div>
      </div>
      <VersionLead seen={seen} />
      <Ruler gain={gain} places={places.value} />
    </section>
  );
}
