/** Who proposes, what they do now, what they took; models and machines. */

import type { JSX } from "preact";
import { address } from "../../api/client";
import type { Agent, Agents } from "../../api/tables";
import { Card, Empty, Facts, Scroll, Wait } from "../../parts/blocks";
import { Since } from "../../parts/clock";
import { Icon } from "../../parts/icon";
import { Said } from "../../parts/said";
import { useQuery } from "../../state/query";
import { shownRun } from "../../state/store";
import { bytes, count, dollars, duration, fixed, plural, share, tokens } from "../../text/numbers";

const WIDE = 420;
const HOUR = 3600;
const TONES: Record<Agent["state"], string> = {
  asking: "live",
  measuring: "live",
  idle: "none",
  stalled: "bad",
  benched: "warn",
};

/** The last hour: full height runs, half height asks a model, red stalled. */
function Lane({ agent, now }: { agent: Agent; now: number }): JSX.Element {
  const x = (at: number): number => Math.max(0, Math.min(WIDE, ((at - (now - HOUR)) / HOUR) * WIDE));
  return (
    <svg
      class="lane"
      viewBox={`0 0 ${WIDE} 18`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`Last hour: ${laneWords(agent)}`}
    >
      <path d={`M0 9H${WIDE}`} stroke="var(--line-strong)" />
      {agent.lane.map(([from, to, kind], index) => {
        const left = x(from);
        const width = Math.max(1, x(to) - left - 0.5);
        const isLow = kind === "asks";
        return (
          <rect
            key={index}
            x={left}
            y={isLow ? 5 : 2}
            width={width}
            height={isLow ? 8 : 14}
            rx={1.5}
            fill={kind === "stalled" ? "var(--failed)" : "var(--ink-2)"}
            opacity={kind === "runs" ? 0.8 : isLow ? 0.45 : 1}
          />
        );
      })}
    </svg>
  );
}

export function laneWords(agent: Pick<Agent, "lane">): string {
  const sums = { asks: 0, runs: 0, stalled: 0 };
  for (const [from, to, kind] of agent.lane) sums[kind] += to - from;
  const words = Object.entries(sums).filter(([, seconds]) => seconds > 0);
  return words.map(([kind, seconds]) => `${kind} ${duration(seconds)}`).join(", ") || "nothing";
}

function State({ agent }: { agent: Agent }): JSX.Element {
  const tone = TONES[agent.state];
  return (
    <span class={`state ${tone}`}>
      {tone !== "none" && <i />}
      {agent.state}
    </span>
  );
}

function Heartbeat({ agent }: { agent: Agent }): JSX.Element {
  return agent.heartbeat === null ? (
    <>–</>
  ) : (
    <>
      <Since at={agent.heartbeat} /> ago
    </>
  );
}

function Row({ agent, now }: { agent: Agent; now: number }): JSX.Element {
  return (
    <tr>
      <td class="nowrap">
        <b>
          <Said text={agent.name} />
        </b>{" "}
        <span class="dim">
          <Said text={agent.model || agent.agent} />
        </span>
      </td>
      <td>
        <State agent={agent} />
      </td>
      <td class="mid nowrap">
        <Heartbeat agent={agent} />
      </td>
      <td class="lane-cell">
        <Lane agent={agent} now={now} />
      </td>
      <td class="num">{count(agent.nodes)}</td>
      <td class="num">{count(agent.kept)}</td>
      <td class="num">{agent.tokens ? tokens(agent.tokens) : "–"}</td>
      <td class="num">{agent.money_usd ? dollars(agent.money_usd) : "–"}</td>
      <td
        class={`num ${agent.stall_rate > 0.2 ? "ill" : ""}`}
        title={Object.entries(agent.stalls)
          .map(([why, many]) => `${why}: ${many}`)
          .join("; ")}
      >
        {share(agent.stall_rate)}
      </td>
    </tr>
  );
}

function PhoneCard({ agent, now }: { agent: Agent; now: number }): JSX.Element {
  return (
    <section class="card">
      <div class="in">
        <div class="row">
          <b>
            <Said text={agent.name} />
          </b>
          <span class="dim">
            <Said text={agent.model || agent.agent} />
          </span>
          <span class="end">
            <State agent={agent} />
          </span>
        </div>
        <Lane agent={agent} now={now} />
        <div class="row apart mid">
          <span>
            heartbeat <Heartbeat agent={agent} />
          </span>
          <span>
            {count(agent.kept)} kept of {count(agent.nodes)}
          </span>
          <span>{agent.money_usd ? dollars(agent.money_usd) : "–"}</span>
        </div>
      </div>
    </section>
  );
}

function Stalled({ agents }: { agents: Agent[] }): JSX.Element | null {
  const stalled = agents.filter((agent) => agent.state === "stalled" || agent.state === "benched");
  const first = stalled[0];
  if (!first) return null;
  return (
    <div class={`alert ${first.state === "stalled" ? "bad" : ""}`} role="alert">
      <Icon name="alert" />
      <span>
        <b>
          <Said text={first.name} /> is {first.state}.
        </b>{" "}
        {first.state === "stalled" ? "No sign of life for " : "It is set aside: "}
        {first.state === "stalled" ? (
          first.heartbeat !== null && <Since at={first.heartbeat} />
        ) : (
          <Said text={first.bench_reason} />
        )}
        {first.benched_until !== null && (
          <>, until {new Date(first.benched_until * 1000).toLocaleTimeString("en-GB")}</>
        )}
        .{stalled.length > 1 && ` And ${stalled.length - 1} more.`}
      </span>
    </div>
  );
}

function Models({ data }: { data: Agents }): JSX.Element {
  const calls = data.models.reduce((sum, model) => sum + model.calls, 0);
  const cached = data.models.reduce((sum, model) => sum + model.cached, 0);
  return (
    <Card title="Models" more={calls ? `asked ${plural(calls, "time")}, ${count(cached)} from the cache` : ""}>
      {data.models.length ? (
        <Scroll label="Models">
          <table>
            <thead>
              <tr>
                <th>Model</th>
                <th class="num">Calls</th>
                <th class="num">Median wait</th>
                <th class="num">Failed</th>
                <th class="num">Refused</th>
                <th class="num">Tokens</th>
                <th class="num">Cost</th>
              </tr>
            </thead>
            <tbody>
              {data.models.map((model) => (
                <tr key={model.name}>
                  <td>
                    <b>
                      <Said text={model.name} />
                    </b>{" "}
                    <span class="dim">
                      <Said text={model.roles.join(", ")} />
                      {model.in_flight > 0 && `, ${model.in_flight} in flight`}
                    </span>
                  </td>
                  <td class="num">{count(model.calls)}</td>
                  <td class="num nowrap">
                    {model.median_seconds === null ? "–" : duration(model.median_seconds)}
                  </td>
                  <td class="num">{count(model.failed)}</td>
                  <td class="num">{count(model.refused)}</td>
                  <td class="num">{tokens(model.tokens)}</td>
                  <td class="num">{model.unpriced ? "not priced" : dollars(model.money_usd)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      ) : (
        <div class="in mid">This run asks no model.</div>
      )}
      {data.refused.length > 0 && (
        <div class="in">
          <h3 class="label">Proposals refused before they ran</h3>
          <Facts
            rows={data.refused
              .slice(0, 8)
              .map((row) => [<Said key={row.reason} text={row.reason} />, count(row.count)])}
          />
        </div>
      )}
    </Card>
  );
}

function Machines({ data }: { data: Agents }): JSX.Element {
  const present = data.machines.filter((machine) => machine.present).length;
  return (
    <Card title="Machines" more={data.machines.length ? `${present} of ${data.machines.length} comparable` : ""}>
      <div class="in">
        <Facts
          rows={[
            ["slots", `${data.host.busy} of ${data.host.slots} busy`],
            ["load", `${fixed(data.host.load, 1)} of ${plural(data.host.cores, "core")}`],
            ["disk left", bytes(data.host.disk_free_bytes)],
            ...data.machines.map((machine): [JSX.Element, JSX.Element] => [
              <span key="n" class="mono">
                {machine.present ? "this machine" : "another"}
              </span>,
              <span key={machine.fingerprint} title={machine.fingerprint}>
                <Said text={machine.text} />{" "}
                <span class="dim">
                  {plural(machine.results, "result")}
                  {machine.noise_percent === null ? "" : `, noise ± ${fixed(machine.noise_percent, 1)} %`}
                </span>
              </span>,
            ]),
          ]}
        />
      </div>
    </Card>
  );
}

export function AgentsView(): JSX.Element {
  const { data, error } = useQuery<Agents>(address("/api/agents", { run: shownRun.value }), { every: 2 });
  if (!data) return <Wait error={error} />;
  return (
    <>
      <Stalled agents={data.agents} />
      <div class="grid">
        {data.agents.length ? (
          <>
            <Card
              title="Agents and proposers"
              more="last hour: full height runs, half height asks a model"
              class="agent-table"
            >
              <Scroll label="Agents">
                <table>
                  <thead>
                    <tr>
                      <th>Agent</th>
                      <th>State</th>
                      <th>Heartbeat</th>
                      <th>Last hour</th>
                      <th class="num">Nodes</th>
                      <th class="num">Kept</th>
                      <th class="num">Tokens</th>
                      <th class="num">Cost</th>
                      <th class="num">Stalled</th>
                    </tr>
                  </thead>
                  <tbody>
                    {data.agents.map((agent) => (
                      <Row key={`${agent.name} ${agent.model}`} agent={agent} now={data.now} />
                    ))}
                  </tbody>
                </table>
              </Scroll>
            </Card>
            <div class="agent-cards">
              {data.agents.map((agent) => (
                <PhoneCard key={`${agent.name} ${agent.model}`} agent={agent} now={data.now} />
              ))}
            </div>
          </>
        ) : (
          <Card>
            <Empty title="Nobody has proposed yet" />
          </Card>
        )}
        <div class="grid half">
          <Models data={data} />
          <Machines data={data} />
        </div>
      </div>
    </>
  );
}
