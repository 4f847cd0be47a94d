/** Choose a node by its id, its number, or words of its change. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { address, get } from "../../api/client";
import type { Found } from "../../api/tables";
import { Said } from "../../parts/said";
import { shownRun } from "../../state/store";
import { nodeName } from "../../text/ids";

export function PickNode({
  letter,
  onPick,
  onClose,
}: {
  letter: string;
  onPick(id: string): void;
  onClose(): void;
}): JSX.Element {
  const [text, setText] = useState("");
  const [found, setFound] = useState<Found | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    const timer = window.setTimeout(() => {
      get<Found>(address("/api/find", { q: text || "kept", run: shownRun.value, limit: 8 }), abort.signal).then(
        setFound,
        () => undefined,
      );
    }, 120);
    return () => {
      abort.abort();
      window.clearTimeout(timer);
    };
  }, [text]);
  return (
    <div class="pick-node">
      <input
        aria-label={`Find node ${letter}`}
        placeholder="Words, an id, or a verdict"
        autofocus
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") onClose();
          if (event.key === "Enter" && found?.hits[0]) onPick(found.hits[0].id);
        }}
      />
      <ul class="feed ended">
        {found?.hits.map((hit) => (
          <li key={hit.id}>
            <button type="button" class="btn quiet low" onClick={() => onPick(hit.id)}>
              <span class="mono">{nodeName(hit)}</span>
              <Said class="clip" text={hit.summary} />
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
