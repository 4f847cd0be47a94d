/** Ages that count up: one timer for the whole page. */

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { serverNow } from "../state/store";
import { age } from "../text/numbers";

const beat = signal(0);
globalThis.setInterval?.(() => {
  if (!globalThis.document?.hidden) beat.value += 1;
}, 1000);

/** Read it to be drawn again each second. */
export const everySecond = (): number => beat.value;

export function Since({ at }: { at: number }): JSX.Element {
  everySecond();
  return <>{age(serverNow() - at)}</>;
}
