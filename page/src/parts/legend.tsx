/** The legend of verdicts; each entry hides or shows its marks. */

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import type { Counts, Mark } from "../api/names";
import { count } from "../text/numbers";
import { MARK_NAMES, MARKS, MarkIcon } from "./marks";

export const hidden = signal<ReadonlySet<Mark>>(new Set());

function toggle(mark: Mark): void {
  const next = new Set(hidden.value);
  if (!next.delete(mark)) next.add(mark);
  hidden.value = next;
}

const ALWAYS = new Set<Mark>(["kept", "discarded", "failed"]);

export function Legend({ counts }: { counts: Counts }): JSX.Element {
  const shown = MARKS.filter((mark) => ALWAYS.has(mark) || counts[mark]);
  return (
    <div class="legend" role="group" aria-label="Shown verdicts">
      {shown.map((mark) => (
        <button key={mark} type="button" aria-pressed={!hidden.value.has(mark)} onClick={() => toggle(mark)}>
          <MarkIcon mark={mark} />
          {MARK_NAMES[mark]} <b>{count(counts[mark] ?? 0)}</b>
        </button>
      ))}
    </div>
  );
}
