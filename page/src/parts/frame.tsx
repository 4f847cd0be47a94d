/** The frame around every view: places to go, the state of the run, and what can be done to it. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { ask } from "../actions/asked";
import { runActions } from "../actions/sheets";
import { link, route, VIEWS } from "../state/route";
import {
  canAct,
  connection,
  heardAt,
  isPaused,
  overview,
  retryAt,
  serverNow,
  session,
  shownRun,
  showRun,
} from "../state/store";
import { switchTheme, theme } from "../state/theme";
import { age, duration, times } from "../text/numbers";
import { everySecond } from "./clock";
import { Find } from "./find";
import { Brand, Icon, type IconName } from "./icon";
import { Said } from "./said";

const PHONE_VIEWS = new Set(["overview", "tree", "compare", "agents"]);

function stateWords(): { tone: string; word: string; more: string } {
  const seen = overview.value;
  if (connection.value === "broken")
    return {
      tone: "bad",
      word: "disconnected",
      more: `trying again in ${age((retryAt.value - Date.now()) / 1000)}`,
    };
  if (connection.value === "ended")
    return { tone: "bad", word: "closed", more: "the dashboard's server has ended" };
  if (!seen) return { tone: "rest", word: session.value?.run === null ? "not started" : "loading", more: "" };
  const ran = duration(seen.elapsed_seconds);
  switch (seen.state) {
    case "running":
    case "confirming":
    case "measuring baseline":
      return {
        tone: "live",
        word: seen.state,
        more: age(seen.elapsed_seconds + Math.max(0, serverNow() - seen.now)),
      };
    case "stalled":
    case "paused":
      return { tone: "warn", word: seen.state, more: ran };
    case "interrupted":
      return { tone: "bad", word: seen.state, more: "its process died" };
    default:
      return { tone: "rest", word: seen.state, more: ran };
  }
}

function RunPicker(): JSX.Element | null {
  const runs = session.value?.runs ?? [];
  const current = overview.value?.run ?? session.value?.run;
  if (runs.length < 2) return current ? <span class="dim wide">run {current}</span> : null;
  return (
    <select
      aria-label="Shown run"
      value={String(shownRun.value ?? current ?? "")}
      onChange={(event) => showRun(Number(event.currentTarget.value))}
    >
      {[...runs].reverse().map((run) => (
        <option key={run.run} value={String(run.run)}>
          run {run.run}
        </option>
      ))}
    </select>
  );
}

function StateLine(): JSX.Element {
  everySecond();
  const { tone, word, more } = stateWords();
  return (
    <span class={`state ${tone}`}>
      <i />
      <b role="status">{word}</b>
      <span class="dim wide clip">{more}</span>
    </span>
  );
}

function TopBar(): JSX.Element {
  const icons: Record<string, IconName> = { direct: "note", pause: "pause", resume: "play", stop: "stop" };
  const labels: Record<string, string> = { direct: "Direct", pause: "Pause", resume: "Resume", stop: "Stop…" };
  return (
    <header class="top">
      <span class="where">
        <span class="clip">
          <Said text={session.value?.task ?? "loopty"} />
        </span>
        <RunPicker />
      </span>
      <StateLine />
      <Find />
      {runActions()
        .filter((name) => name !== "budget")
        .map((name) => (
          <button
            key={name}
            type="button"
            class="btn wide"
            disabled={!canAct.value}
            onClick={() => ask(name)}
            title={labels[name]}
            aria-label={labels[name]}
          >
            <Icon name={icons[name] ?? "more"} />
            <span class="name">{labels[name]}</span>
          </button>
        ))}
      <button
        type="button"
        class="btn icon quiet phone end"
        aria-label="Find"
        onClick={() => document.dispatchEvent(new CustomEvent("find"))}
      >
        <Icon name="find" />
      </button>
      <button type="button" class="btn icon quiet" aria-label="Light or dark" onClick={switchTheme}>
        <Icon name={theme.value === "dark" ? "sun" : "moon"} />
      </button>
      <button
        type="button"
        class="btn icon quiet"
        aria-label={isPaused.value ? "Actions, the run is paused" : "Actions"}
        onClick={() => ask("menu")}
      >
        <Icon name="more" />
      </button>
    </header>
  );
}

function Updated(): JSX.Element {
  everySecond();
  if (!heardAt.value) return <div>waiting for data</div>;
  if (connection.value === "live") return <div>live, event {overview.value?.event ?? "–"}</div>;
  return <div>updated {age((Date.now() - heardAt.value) / 1000)} ago</div>;
}

export function Frame({ children }: { children: ComponentChildren }): JSX.Element {
  const at = route.value.view === "node" ? "tree" : route.value.view;
  const held = overview.value?.counts.held ?? 0;
  const main = useRef<HTMLElement>(null);
  const where = `${route.value.view}/${route.value.rest.join("/")}`;
  const first = useRef(where);
  useEffect(() => {
    if (first.current === where) return;
    first.current = where;
    main.current?.focus();
    if (main.current) main.current.scrollTop = 0;
  }, [where]);
  useEffect(() => {
    const seen = overview.value;
    const name = session.value?.task ?? "loopty";
    const factor = seen?.gain.best?.over_baseline?.is_confirmed === false ? null : seen?.gain.factor;
    document.title = seen
      ? `${name}: ${factor ? `${times(factor)}, ` : ""}${connection.value === "live" ? stateWords().word : "disconnected"}`
      : name;
  });
  const current = (name: string): Record<string, string> => (at === name ? { "aria-current": "page" } : {});
  const badge = held > 0 && (
    <span class="badge">
      {held}
      <span class="sr"> held for review</span>
    </span>
  );
  return (
    <div class="frame">
      <nav class="side" aria-label="Views">
        <a class="brand" href={link("overview")}>
          <Brand />
          <span class="name">loopty</span>
        </a>
        {VIEWS.map((view) => (
          <a key={view.name} class="nav" href={link(view.name)} {...current(view.name)} title={view.label}>
            <Icon name={view.name} />
            <span class="name">{view.label}</span>
            {view.name === "audit" && badge ? badge : <kbd aria-hidden="true">g {view.key}</kbd>}
          </a>
        ))}
        <div class="foot">
          <button type="button" onClick={() => ask("keys")}>
            Keys <kbd>?</kbd>
          </button>
          <Updated />
        </div>
      </nav>
      <TopBar />
      <main id="main" tabIndex={-1} ref={main}>
        {children}
      </main>
      <nav class="tabbar" aria-label="Views on a phone">
        {VIEWS.filter((view) => PHONE_VIEWS.has(view.name)).map((view) => (
          <a key={view.name} href={link(view.name)} {...current(view.name)}>
            <Icon name={view.name} />
            {view.label}
          </a>
        ))}
        <button type="button" onClick={() => ask("menu")}>
          <Icon name="more" />
          More
          {badge}
        </button>
      </nav>
    </div>
  );
}
