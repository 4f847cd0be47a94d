/** Is the gain real on what the search never saw? Held-out looks, results that wait, verdicts taken back. */

import type { JSX } from "preact";
import { ask } from "../../actions/asked";
import { address } from "../../api/client";
import type { Audit, AuditRow } from "../../api/tables";
import { Card, Empty, Facts, Scroll, Wait } from "../../parts/blocks";
import { Icon } from "../../parts/icon";
import { MarkIcon } from "../../parts/marks";
import { Said } from "../../parts/said";
import { useQuery } from "../../state/query";
import { go, nodeLink } from "../../state/route";
import { canAct, places, shownRun } from "../../state/store";
import { nodeName } from "../../text/ids";
import { clock, count, figure, fixed, number, percent, plural, share } from "../../text/numbers";
import { GapChart } from "./gap_chart";

function Held({ data }: { data: Audit }): JSX.Element | null {
  if (!data.held.length) return null;
  return (
    <Card title="Waits for you" more="counts for nothing until you decide">
      <ul class="held-list">
        {data.held.map((row) => (
          <li key={row.node.id}>
            <MarkIcon mark="held" />
            <a class="grow" href={nodeLink(row.node.id)}>
              <b>
                <Said text={row.node.summary} />
              </b>
              <span class="dim small block">
                <span class="mono">{nodeName(row.node)}</span> {clock(row.at)} · <Said text={row.reason} />
              </span>
            </a>
            <span class="nowrap">
              <b>{number(row.score, places.value)}</b> <span class="dim">{percent(row.gain_percent)}</span>
            </span>
            <button type="button" class="btn low" onClick={() => go(nodeLink(row.node.id))}>
              Look at it
            </button>
            <button type="button" class="btn low" disabled={!canAct.value} onClick={() => ask("accept", row.node)}>
              Let it count…
            </button>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function LookRow({ row }: { row: AuditRow }): JSX.Element {
  return (
    <tr>
      <td class="num">{row.look}</td>
      <td class="nowrap">{clock(row.at)}</td>
      <td>
        <a href={nodeLink(row.node.id)}>
          <span class="mono">{nodeName(row.node)}</span> <Said text={row.node.summary} />
        </a>
      </td>
      <td class="num">{figure(row.search_gain)}</td>
      <td class="num">{figure(row.held_out_gain)}</td>
      <td class={`num ${row.survives !== null && row.survives < 0.5 ? "ill" : ""}`}>{share(row.survives)}</td>
      <td>
        {row.flags.map((flag) => (
          <div key={flag.kind} class="ill">
            <Said text={flag.words} />
          </div>
        ))}
        {row.ended && row.ended !== "finished" && <Said text={row.ended} />}
      </td>
    </tr>
  );
}

function heading(data: Audit): string {
  const last = data.rows[data.rows.length - 1];
  if (!data.has_split) return "Nothing is held out";
  if (!last) return "Not looked at yet";
  return last.survives === null
    ? "The last look gave no answer"
    : `${share(last.survives)} of the gain survives on held-out data`;
}

export function AuditView(): JSX.Element {
  const { data, error } = useQuery<Audit>(address("/api/audit", { run: shownRun.value }), { every: 4 });
  if (!data) return <Wait error={error} />;
  return (
    <>
      {data.flaw && (
        <div class="alert bad" role="alert">
          <Icon name="alert" />
          <span>
            <b>The record was changed by hand.</b> <Said text={data.flaw} />
          </span>
        </div>
      )}
      <div class="grid">
        <h2 class="title">{heading(data)}</h2>
        <Held data={data} />
        <div class="grid two">
          <div class="grid">
            {data.rows.length > 0 ? (
              <>
                <Card
                  title="Search gain against held-out gain, by look"
                  more="the gap is what the search only seems to have won"
                >
                  <div class="in">
                    <GapChart rows={data.rows} />
                  </div>
                </Card>
                <Card title="Looks" more={plural(data.looks, "look")}>
                  <Scroll label="Looks at held-out data">
                    <table>
                      <thead>
                        <tr>
                          <th class="num">Look</th>
                          <th>When</th>
                          <th>Node</th>
                          <th class="num">Search gain</th>
                          <th class="num">Held-out gain</th>
                          <th class="num">Survives</th>
                          <th>Notes</th>
                        </tr>
                      </thead>
                      <tbody>
                        {[...data.rows].reverse().map((row) => (
                          <LookRow key={`${row.look} ${row.node.id}`} row={row} />
                        ))}
                      </tbody>
                    </table>
                  </Scroll>
                </Card>
              </>
            ) : (
              <Card>
                <Empty title={data.has_split ? "No audit yet" : "This task holds nothing out"}>
                  <p>
                    {data.has_split
                      ? "loopty measure audit runs the best node on data that the search never saw."
                      : "Name held-out data in loopty.toml, and loopty measure audit tells how much of the gain is real."}
                  </p>
                </Empty>
              </Card>
            )}
          </div>
          <div class="node-side">
            <Card title="How far to trust what was kept">
              <div class="in">
                <Facts
                  rows={[
                    ["kept nodes", count(data.kept)],
                    [
                      "of them false, expected",
                      data.expected_false_keeps === null
                        ? "–, results do not vary"
                        : `at most ${fixed(data.expected_false_keeps, 1)}`,
                    ],
                    ["integrity strong", count(data.integrity.strong)],
                    [
                      "integrity weak",
                      <span key="w" class={data.integrity.weak ? "ill" : ""}>
                        {count(data.integrity.weak)}
                      </span>,
                    ],
                    [
                      "looks at held-out data",
                      `${count(data.looks)}${data.looks >= data.many_looks && data.many_looks > 0 ? ", that is many" : ""}`,
                    ],
                  ]}
                />
                {data.looks >= data.many_looks && data.many_looks > 0 && (
                  <p class="note">
                    Each look uses the held-out data up a little: choices made after it are no longer blind.
                  </p>
                )}
              </div>
            </Card>
            <Card title="Taken back" more={data.withdrawn.length ? count(data.withdrawn.length) : ""}>
              <div class="in">
                {data.withdrawn.length ? (
                  <ul class="parts">
                    {data.withdrawn.map((row) => (
                      <li key={row.node.id}>
                        <a href={nodeLink(row.node.id)}>
                          <span class="mono">{nodeName(row.node)}</span> was {row.verdict}: <Said text={row.why} />
                        </a>{" "}
                        <span class="dim">{clock(row.at)}</span>
                      </li>
                    ))}
                  </ul>
                ) : (
                  <p class="mid">No verdict was taken back.</p>
                )}
              </div>
            </Card>
          </div>
        </div>
      </div>
    </>
  );
}
