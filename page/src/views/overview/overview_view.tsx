/** What needs me, how much better and how sure, is it real, what is left, what runs now: in this order. */

import type { JSX } from "preact";
import { Bones } from "../../parts/blocks";
import { overview } from "../../state/store";
import { Alerts } from "../alerts";
import { CombinationCard, TuningCard } from "../stages";
import { BestChart } from "./best_chart";
import { CostCard } from "./cost";
import { GainCard } from "./gain";
import { NowCard } from "./now";
import { RealCard } from "./real";
import { BurnCard, RolesCard, TimeCard, WorkedCard } from "./summaries";

export function OverviewView(): JSX.Element {
  const seen = overview.value;
  if (!seen)
    return (
      <>
        <Alerts />
        <Bones />
      </>
    );
  return (
    <>
      <Alerts />
      <div class="grid">
        <section class="card hero">
          <GainCard seen={seen} />
          <RealCard seen={seen} />
          <CostCard seen={seen} />
        </section>
        <div class="grid two">
          <BestChart seen={seen} />
          <NowCard seen={seen} />
        </div>
        <div class="grid summaries">
          <WorkedCard seen={seen} />
          <div class="node-side">
            <TimeCard seen={seen} />
            {seen.tuning && <TuningCard tuning={seen.tuning} />}
            <CombinationCard combines={seen.combines} combinedBy={seen.combined_by} />
          </div>
          <div class="node-side">
            <RolesCard seen={seen} />
            <BurnCard seen={seen} />
          </div>
        </div>
      </div>
    </>
  );
}
