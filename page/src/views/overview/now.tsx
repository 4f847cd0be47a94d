/** What runs now, with its last line, and what just ended. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Overview, Running } from "../../api/overview";
import { Card } from "../../parts/blocks";
import { Since } from "../../parts/clock";
import { MARK_NAMES, MarkIcon } from "../../parts/marks";
import { Said } from "../../parts/said";
import { nodeLink } from "../../state/route";
import { running, slots } from "../../state/store";
import { nodeName } from "../../text/ids";
import { figure, percent, signed } from "../../text/numbers";
import { LiveTrial } from "./live_trial";

const isAsking = (row: Running): boolean => row.trial.startsWith("call:");

function RunningRow({ row, onOpen }: { row: Running; onOpen(): void }): JSX.Element {
  const metrics = row.row ? Object.entries(row.row).slice(0, 3) : [];
  return (
    <li>
      <button
        type="button"
        class="plain"
        onClick={onOpen}
        aria-haspopup="dialog"
        aria-label={`Live log of ${row.trial}`}
        disabled={isAsking(row)}
      >
        <span class="line">
          <MarkIcon mark="open" />
          <span class="mono clip grow">
            {isAsking(row) ? "new node" : row.node ? nodeName(row.node) : row.trial}
          </span>
          <Said class="dim" text={row.operator} />
          <span class="nowrap">
            <Since at={row.since} />
          </span>
        </span>
        <span class="line small">
          <Said class="mid clip" text={row.phase + (row.model ? ` (${row.model})` : "")} />
          {row.low_percent !== null && row.high_percent !== null && (
            <span class="dim end nowrap">
              {signed(row.low_percent)} to {signed(row.high_percent)} %
            </span>
          )}
          {row.low_percent === null && metrics.length > 0 && (
            <span class="dim end clip">
              {metrics.map(([name, value]) => `${name} ${figure(value)}`).join("  ")}
            </span>
          )}
        </span>
        {row.last_line && (
          <span class="mono dim clip last">
            <Said text={row.last_line} />
          </span>
        )}
        <span class={`thin ${row.progress === null ? "idle" : ""}`}>
          <i style={row.progress === null ? {} : { width: `${Math.min(1, row.progress) * 100}%` }} />
        </span>
      </button>
    </li>
  );
}

function slotWords(): string {
  const now = slots.value;
  if (!now) return "";
  if (!now.busy && !now.asking) return "nothing runs";
  const asks = now.asking ? `, ${now.asking} asking` : "";
  return `${now.busy} of ${now.trials} slots busy${asks}`;
}

export function NowCard({ seen }: { seen: Overview }): JSX.Element {
  const [open, setOpen] = useState<Running | null>(null);
  const rows = running.value;
  return (
    <Card title="Now" more={slotWords()} class="now-card">
      <ul class="now">
        {rows.slice(0, 6).map((row) => (
          <RunningRow key={row.trial} row={row} onOpen={() => setOpen(row)} />
        ))}
        {rows.length > 6 && <li class="dim">and {rows.length - 6} more</li>}
        {!rows.length && <li class="dim">{idleWords(seen)}</li>}
      </ul>
      {seen.just_ended.length > 0 && (
        <>
          <h3 class="label rule">Just ended</h3>
          <ul class="feed ended">
            {seen.just_ended.map((row) => (
              <li key={row.node.id}>
                <a href={nodeLink(row.node.id)}>
                  <MarkIcon mark={row.mark} />
                  <Said class="clip" text={row.node.summary} />
                  <span class="dim nowrap">
                    {row.gain_percent === null ? MARK_NAMES[row.mark] : percent(row.gain_percent)}
                  </span>
                </a>
              </li>
            ))}
          </ul>
        </>
      )}
      {open && (
        <LiveTrial
          row={rows.find((row) => row.trial === open.trial) ?? open}
          isOver={!rows.some((row) => row.trial === open.trial)}
          onClose={() => setOpen(null)}
        />
      )}
    </Card>
  );
}

function idleWords(seen: Overview): string {
  if (seen.state === "stopped") return seen.reason || "The run is stopped.";
  if (seen.state === "by hand" || seen.state === "not started") return "No session runs yet.";
  if (seen.state === "paused") return "Paused: nothing new starts.";
  if (seen.state === "interrupted") return "Nothing runs: its process is gone.";
  return "Between two trials.";
}
