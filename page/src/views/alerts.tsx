/** The one most urgent thing that needs a person. */

import type { JSX } from "preact";
import type { AlertRow } from "../api/overview";
import { Command } from "../parts/blocks";
import { everySecond } from "../parts/clock";
import { Icon } from "../parts/icon";
import { MarkIcon } from "../parts/marks";
import { Said } from "../parts/said";
import { go, link, nodeLink } from "../state/route";
import { connection, heardAt, overview, reconnect } from "../state/store";
import { nodeName } from "../text/ids";
import { age } from "../text/numbers";

const WORDS: Record<AlertRow["kind"], string> = {
  lost: "Interrupted.",
  stalled: "Stalled.",
  held: "A result waits for you.",
  benched: "An agent stalled.",
  budget: "The budget runs out.",
  baseline: "The baseline has a problem.",
  paused: "Paused.",
  awaited: "Waiting for a model.",
  audit: "Audit.",
  tampered: "The record was changed by hand.",
};

function Disconnected(): JSX.Element {
  everySecond();
  const since = heardAt.value
    ? `What you see is ${age((Date.now() - heardAt.value) / 1000)} old.`
    : "Nothing has arrived yet.";
  return (
    <div class="alert bad" role="alert">
      <Icon name="alert" />
      <span>
        <b>This page lost its server.</b> {since} The run itself may be fine: it does not need the page. Actions
        are off until it is back.
      </span>
      <button type="button" class="btn" onClick={reconnect}>
        Try now
      </button>
    </div>
  );
}

function AlertBox({ alert }: { alert: AlertRow }): JSX.Element {
  const { node } = alert;
  const isCommand = alert.remedy.startsWith("loopty ");
  return (
    <div
      class={`alert ${alert.level === "bad" ? "bad" : alert.level === "info" ? "info" : ""}`}
      role={alert.level === "bad" ? "alert" : "status"}
    >
      {alert.kind === "held" ? <MarkIcon mark="held" /> : <Icon name="alert" />}
      <span>
        <b>{WORDS[alert.kind]}</b> {node && <span class="mono">{nodeName(node)} </span>}
        <Said text={alert.text} />
        {alert.remedy && !isCommand && <>; {alert.remedy}</>}
      </span>
      {node ? (
        <button type="button" class="btn" onClick={() => go(nodeLink(node.id))}>
          Look at it
        </button>
      ) : isCommand ? (
        <Command text={alert.remedy} />
      ) : alert.kind === "benched" ? (
        <button type="button" class="btn" onClick={() => go(link("agents"))}>
          See agents
        </button>
      ) : null}
    </div>
  );
}

export function Alerts(): JSX.Element | null {
  if (connection.value === "broken" || connection.value === "ended") return <Disconnected />;
  const first = overview.value?.alerts[0];
  return first ? <AlertBox alert={first} /> : null;
}
