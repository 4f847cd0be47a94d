/** Is it real? Four checks: "yes" only while all of them hold, "in part" where none fails and some are missing. */

import type { JSX } from "preact";
import type { Overview } from "../../api/overview";
import { Sure } from "../../parts/blocks";
import { Said } from "../../parts/said";

const ANSWERS = {
  yes: "Yes, so far",
  "in part": "In part",
  "not shown": "Not shown",
  "too early": "Too early",
} as const;
const STATES = { pass: "holds", fail: "fails", missing: "missing" } as const;

export function RealCard({ seen }: { seen: Overview }): JSX.Element {
  return (
    <section>
      <div class="label">Is it real?</div>
      <div class="figure">{ANSWERS[seen.real.verdict]}</div>
      <ul class="checks">
        {seen.real.checks.map((check) => (
          <li key={check.name} class={check.state} title={`${check.text}; ${check.detail}`}>
            <Sure state={check.state} />
            <span class="sr">{STATES[check.state]}: </span>
            <Said class="clip what" text={check.text} />
            <Said class="clip dim" text={check.detail} />
          </li>
        ))}
      </ul>
    </section>
  );
}
