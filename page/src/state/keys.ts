/** The keyboard: one table of keys, and views that add their own steps. */

import { ask, asked } from "../actions/asked";
import { go, link, nodeLink, VIEWS } from "./route";
import { overview } from "./store";
import { switchTheme } from "./theme";

export interface Steps {
  next?: string | null;
  previous?: string | null;
  nextKept?: string | null;
  previousKept?: string | null;
  parent?: string | null;
  child?: string | null;
  compare?: () => void;
  fit?: () => void;
}

let steps: Steps = {};
let isAfterG = false;

/** A view says where its keys lead; it hands back how to take that away again. */
export function setSteps(wanted: Steps): () => void {
  steps = wanted;
  return () => {
    if (steps === wanted) steps = {};
  };
}

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && target.matches("input, textarea, select");

function goTo(id: string | null | undefined): void {
  if (id) go(nodeLink(id));
}

const ACTIONS: Record<string, (event: KeyboardEvent) => void> = {
  g: () => {
    isAfterG = true;
  },
  "/": (event) => {
    event.preventDefault();
    document.dispatchEvent(new CustomEvent("find"));
  },
  "?": () => ask("keys"),
  j: () => goTo(steps.next),
  k: () => goTo(steps.previous),
  J: () => goTo(steps.nextKept),
  K: () => goTo(steps.previousKept),
  h: () => goTo(steps.parent),
  l: () => goTo(steps.child),
  b: () => goTo(overview.value?.gain.best?.node),
  c: () => (steps.compare ? steps.compare() : go(link("compare"))),
  f: () => steps.fit?.(),
  d: () => switchTheme(),
  ".": () => ask("menu"),
};

export function onKey(event: KeyboardEvent): void {
  if (event.key === "Escape" && document.activeElement instanceof HTMLElement) document.activeElement.blur();
  if (isTyping(event.target) || event.metaKey || event.ctrlKey || event.altKey || asked.value) return;
  if (isAfterG) {
    isAfterG = false;
    const view = VIEWS.find((one) => one.key === event.key);
    if (view) go(link(view.name));
    return;
  }
  ACTIONS[event.key]?.(event);
}
