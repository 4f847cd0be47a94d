/** The words of each action's sheet; what it does in numbers comes from the server. */

import type { ActionName } from "./asked";

export interface Wording {
  title: string;
  verb: string;
  isDangerous?: boolean;
  /** Asks for a reason, that goes into the record. */
  wantsWhy?: boolean;
}

export const WORDING: Record<ActionName, Wording> = {
  direct: { title: "Tell the proposers what to try", verb: "Send" },
  pause: { title: "Pause the run?", verb: "Pause" },
  resume: { title: "Resume the run?", verb: "Resume" },
  stop: { title: "Stop the run?", verb: "Stop the run", isDangerous: true },
  discard: { title: "Discard this node?", verb: "Discard", isDangerous: true, wantsWhy: true },
  invalidate: {
    title: "Invalidate this node and all below it?",
    verb: "Invalidate",
    isDangerous: true,
    wantsWhy: true,
  },
  remeasure: { title: "Judge this node again?", verb: "Measure" },
  replay: { title: "Measure this node again?", verb: "Measure" },
  restore: { title: "Take the withdrawal back?", verb: "Restore", wantsWhy: true },
  accept: { title: "Let this result count?", verb: "Let it count", isDangerous: true, wantsWhy: true },
  apply: { title: "Bring this change to a branch?", verb: "Apply" },
  budget: { title: "Change the budget", verb: "Change" },
};

export const ACTION_LABELS: Record<ActionName, string> = {
  direct: "Direct…",
  pause: "Pause…",
  resume: "Resume…",
  stop: "Stop…",
  discard: "Discard…",
  invalidate: "Invalidate…",
  remeasure: "Judge again…",
  replay: "Measure again…",
  restore: "Restore…",
  accept: "Let it count…",
  apply: "Apply…",
  budget: "Budget…",
};

export const isAction = (name: string): name is ActionName => name in WORDING;
