/** The tree of experiments: a log of what was kept, or a map. */

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Card, Seg } from "../../parts/blocks";
import { Legend } from "../../parts/legend";
import { setSteps } from "../../state/keys";
import { route } from "../../state/route";
import { overview } from "../../state/store";
import { count } from "../../text/numbers";
import { Alerts } from "../alerts";
import { LogPanel } from "./log_panel";
import { MapPanel } from "./map_panel";

type Drawn = "log" | "map";
const drawn = signal<Drawn>("log");

export function TreeView(): JSX.Element {
  const [fitTurn, setFitTurn] = useState(0);
  const seen = overview.value;
  const asked = route.value.query.get("as");
  useEffect(() => {
    if (asked === "map" || asked === "log") drawn.value = asked;
  }, [asked]);
  useEffect(() => setSteps({ fit: () => setFitTurn((old) => old + 1) }), []);
  const kept = seen?.counts.kept ?? 0;
  return (
    <>
      <Alerts />
      <Card
        title="Tree"
        tools={
          <>
            {drawn.value === "map" && (
              <button type="button" class="btn low wide" onClick={() => setFitTurn(fitTurn + 1)}>
                Fit <kbd>f</kbd>
              </button>
            )}
            <Seg
              name="Drawn as"
              options={[
                ["log", "Log"],
                ["map", "Map"],
              ]}
              value={drawn.value}
              onPick={(value) => {
                drawn.value = value;
              }}
            />
          </>
        }
      >
        <p class="tree-note dim">
          {count(seen?.nodes ?? 0)} experiments, {count(kept)} kept;{" "}
          {drawn.value === "log" ? "the others are the marks of the strips" : "the others are the bars"}
        </p>
        {drawn.value === "log" ? (
          <>
            <Legend counts={seen?.counts ?? {}} />
            <LogPanel />
          </>
        ) : (
          <MapPanel fitTurn={fitTurn} />
        )}
      </Card>
    </>
  );
}
