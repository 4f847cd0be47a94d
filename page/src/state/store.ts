/** What the whole page knows: the session, the newest overview, and how the connection stands. */

import { computed, signal } from "@preact/signals";
import { get, Refusal } from "../api/client";
import type { NodesMessage, Overview, Progress, Running, Session, Slots } from "../api/overview";
import { Stream } from "../api/stream";
import { decimals } from "../text/numbers";

export type Connection = "starting" | "live" | "broken" | "refused" | "ended";

export const session = signal<Session | null>(null);
export const overview = signal<Overview | null>(null);
export const running = signal<Running[]>([]);
export const slots = signal<Slots | null>(null);
export const progress = signal<Progress | null>(null);
export const connection = signal<Connection>("starting");
export const refusal = signal("");
export const retryAt = signal(0);
/** When the newest message came, by this browser's clock. */
export const heardAt = signal(0);
/** The number of the newest event: views ask again when it grows. */
export const event = signal(0);
export const newest = signal<NodesMessage | null>(null);
/** The server's clock minus this browser's, in seconds. */
export const skew = signal(0);
/** The run that is shown; null: the newest. */
export const shownRun = signal<number | null>(null);

export const canAct = computed(() => connection.value === "live");

const OVER = new Set(["stopped", "interrupted", "by hand", "not started", "empty"]);

/** Whether a process drives the run: only then is there something to pause or to stop. */
export const isDriven = computed(() => overview.value !== null && !OVER.has(overview.value.state));

/** A run whose session has ended can be paused, too, with `loopty pause`: its next session then begins paused. */
export const isPaused = computed(() => {
  const seen = overview.value;
  return seen?.state === "paused" || (seen?.alerts.some((alert) => alert.kind === "paused") ?? false);
});

/** One count of decimals for the score, so that columns line up. */
export const places = computed(() => {
  const seen = overview.value;
  if (!seen) return 2;
  const score = seen.gain.best?.score ?? seen.gain.baseline?.score ?? null;
  return decimals(seen.gain.noise?.sigma ?? null, score);
});

let stream: Stream | null = null;

function listen(): void {
  stream?.close();
  const run = shownRun.value;
  stream = new Stream(run === null ? "/api/events" : `/api/events?run=${run}`, {
    onOpen() {
      connection.value = "live";
      heard();
    },
    onBreak(seconds) {
      if (connection.value !== "refused") connection.value = "broken";
      retryAt.value = Date.now() + seconds * 1000;
      void checkLogin();
    },
    onBye(reason) {
      connection.value = "ended";
      refusal.value = reason;
    },
    onOverview(value) {
      takeOverview(value);
      progress.value = null;
    },
    onNodes(value) {
      newest.value = value;
      event.value = Math.max(event.value, value.event);
      heard();
    },
    onNow(value) {
      running.value = value.running;
      slots.value = value.slots;
      skew.value = value.now - Date.now() / 1000;
      heard();
    },
    onProgress(value) {
      progress.value = value;
      heard();
    },
    onReset() {
      void loadSession();
      event.value += 1;
    },
  });
  stream.open();
}

function heard(): void {
  heardAt.value = Date.now();
}

function takeOverview(value: Overview): void {
  if (shownRun.value !== null && value.run !== shownRun.value) return;
  overview.value = value;
  running.value = value.now_running;
  slots.value = value.slots;
  skew.value = value.now - Date.now() / 1000;
  event.value = Math.max(event.value, value.event);
  heard();
}

async function loadSession(): Promise<void> {
  const seen = await get<Session>("/api/session");
  session.value = seen;
  skew.value = seen.now - Date.now() / 1000;
  if (seen.fold && !seen.fold.ready) progress.value = seen.fold;
}

async function checkLogin(): Promise<void> {
  try {
    await loadSession();
  } catch (error) {
    if (error instanceof Refusal && error.status === 401) {
      stream?.close();
      connection.value = "refused";
      refusal.value = error.message;
    }
  }
}

export async function start(): Promise<void> {
  try {
    await loadSession();
  } catch (error) {
    if (error instanceof Refusal) {
      connection.value = "refused";
      refusal.value = error.message;
      return;
    }
    connection.value = "broken";
  }
  listen();
}

/** After an action the page shows its effect at once, before the stream brings it. */
export async function refreshOverview(): Promise<void> {
  const run = shownRun.value;
  takeOverview(await get<Overview>(run === null ? "/api/overview" : `/api/overview?run=${run}`));
  event.value += 1;
}

export function reconnect(): void {
  listen();
}

export function showRun(run: number | null): void {
  shownRun.value = run;
  overview.value = null;
  newest.value = null;
  listen();
}

/** Seconds since the epoch by the server's clock. */
export const serverNow = (): number => Date.now() / 1000 + skew.value;
