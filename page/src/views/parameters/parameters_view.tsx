/** Which parameters matter, and where the best results lie. */

import type { JSX } from "preact";
import { ask } from "../../actions/asked";
import { address } from "../../api/client";
import type { Parameter, Parameters } from "../../api/tables";
import { Parallel, Slice } from "../../charts/parameters";
import { Card, Empty, Facts, Scroll, Wait } from "../../parts/blocks";
import { Said } from "../../parts/said";
import { useQuery } from "../../state/query";
import { go, nodeLink } from "../../state/route";
import { canAct, shownRun } from "../../state/store";
import { count, fixed, plural } from "../../text/numbers";

function Importance({ answer }: { answer: Parameters }): JSX.Element {
  const known = answer.parameters
    .filter((parameter) => parameter.share !== null)
    .sort((a, b) => (b.share ?? 0) - (a.share ?? 0));
  const most = Math.max(0.25, ...known.map((parameter) => parameter.share ?? 0));
  const unsure = known.filter((parameter) => !parameter.told).map((parameter) => parameter.name);
  return (
    <Card title="Importance" more="share of the variance">
      <div class="in">
        {known.length ? (
          <div class="bars param-bars">
            {known.map((parameter) => (
              <ImportanceRow key={parameter.name} parameter={parameter} most={most} />
            ))}
          </div>
        ) : (
          <p class="mid">
            Too early: {plural(answer.results, "result")} of at least {count(answer.fewest)}.
          </p>
        )}
        {known.length > 0 && (
          <p class="note">
            {unsure.length > 0 && (
              <>
                <Said text={unsure.slice(0, 6).join(", ")} /> cannot be told from noise.{" "}
              </>
            )}
            From {plural(answer.results, "result")} on this machine.
          </p>
        )}
      </div>
    </Card>
  );
}

function ImportanceRow({ parameter, most }: { parameter: Parameter; most: number }): JSX.Element {
  const value = parameter.share ?? 0;
  const half =
    parameter.share_low !== null && parameter.share_high !== null
      ? (parameter.share_high - parameter.share_low) / 2
      : null;
  return (
    <>
      <span class="mono clip">
        <Said text={parameter.name} />
      </span>
      <div class="bar thick">
        <i style={{ width: `${(value / most) * 100}%`, ...(parameter.told ? {} : { opacity: "0.45" }) }} />
      </div>
      <span class="num nowrap">
        {fixed(value * 100, 0)}
        {half !== null ? ` ± ${fixed(half * 100, 0)}` : ""} %
      </span>
    </>
  );
}

/** The ranges of the best tenth, as words for a directive. */
export function narrowWords(answer: Parameters): string {
  const ranges = answer.parameters
    .filter((parameter) => parameter.best_tenth)
    .map((parameter) => `${parameter.name}: ${parameter.best_tenth}`);
  return `Stay within what the best tenth of the results share: ${ranges.join("; ")}.`;
}

export function ParametersView(): JSX.Element {
  const { data, error } = useQuery<Parameters>(address("/api/parameters", { run: shownRun.value }), { every: 5 });
  if (!data) return <Wait error={error} />;
  if (!data.parameters.length)
    return (
      <Empty title="This task has no parameters">
        <p>Only files change here. Parameters are named in loopty.toml under [parameters].</p>
      </Empty>
    );
  if (!data.lines.length)
    return (
      <Empty title="No result yet">
        <p>Importance and slices show here with the first results.</p>
      </Empty>
    );
  return (
    <div class="grid">
      <div class="grid importance">
        <Importance answer={data} />
        <Card title="Parallel coordinates" more="best tenth in colour; drag on an axis to filter">
          <Scroll label="Parallel coordinates">
            <div class="parallel">
              <Parallel answer={data} onOpen={(id) => go(nodeLink(id))} />
            </div>
          </Scroll>
        </Card>
      </div>
      <div class="grid three">
        {data.parameters.map((parameter, index) => (
          <Card key={parameter.name} title={<Said class="mono" text={parameter.name} />} more={data.metric.name}>
            <div class="slice">
              <Slice answer={data} index={index} />
            </div>
          </Card>
        ))}
        <Card title="The best tenth lies in" more={`${count(data.tenth)} of ${plural(data.results, "result")}`}>
          <div class="in">
            <Facts
              rows={data.parameters.map((parameter) => [
                <Said key={parameter.name} class="mono" text={parameter.name} />,
                <Said key="words" text={parameter.best_tenth || "–"} />,
              ])}
            />
            <button
              type="button"
              class="btn narrow"
              disabled={!canAct.value}
              onClick={() => ask("direct", undefined, narrowWords(data))}
            >
              Ask the proposers to stay there…
            </button>
          </div>
        </Card>
      </div>
    </div>
  );
}
