/** Two nodes or two runs, side by side; one sentence first. */

import type { JSX } from "preact";
import { Seg } from "../../parts/blocks";
import { go, link, route } from "../../state/route";
import { CompareNodes } from "./compare_nodes";
import { CompareRuns } from "./compare_runs";

export function CompareView(): JSX.Element {
  const what = route.value.rest[0] === "runs" ? "runs" : "nodes";
  const seg = (
    <Seg
      name="Compare"
      options={[
        ["nodes", "Two nodes"],
        ["runs", "Two runs"],
      ]}
      value={what}
      onPick={(value) => go(link("compare", value === "runs" ? ["runs"] : []))}
    />
  );
  return what === "runs" ? <CompareRuns seg={seg} /> : <CompareNodes seg={seg} />;
}
