/** Which sheet is open, and what the last action said. */

import { signal } from "@preact/signals";
import { nodeName } from "../text/ids";

export type ActionName =
  | "direct"
  | "pause"
  | "resume"
  | "stop"
  | "discard"
  | "invalidate"
  | "remeasure"
  | "replay"
  | "restore"
  | "accept"
  | "apply"
  | "budget";

export interface Asked {
  action: ActionName | "menu" | "keys";
  node?: string;
  name?: string;
  summary?: string;
  text?: string;
}

export const asked = signal<Asked | null>(null);
export const said = signal<{ text: string; isBad: boolean } | null>(null);

export function ask(
  action: Asked["action"],
  node?: { id: string; handle: number; summary: string },
  text?: string,
): void {
  asked.value = {
    action,
    ...(node ? { node: node.id, name: nodeName(node), summary: node.summary } : {}),
    ...(text ? { text } : {}),
  };
}
