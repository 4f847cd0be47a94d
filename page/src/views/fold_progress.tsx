/** The record is being read for the first time: how far it is. */

import type { JSX } from "preact";
import type { Progress } from "../api/overview";
import { count } from "../text/numbers";

export function FoldProgress({ progress }: { progress: Progress }): JSX.Element {
  const part = progress.total ? progress.done / progress.total : 0;
  return (
    <div class="grid" aria-busy="true">
      <p class="mid" role="status">
        {progress.what}: {count(progress.done)} of {count(progress.total)} events
      </p>
      <div class="thin">
        <i style={{ width: `${part * 100}%` }} />
      </div>
      <div class="bone" style={{ height: "132px" }} />
      <div class="grid two">
        <div class="bone" style={{ height: "380px" }} />
        <div class="bone" style={{ height: "380px" }} />
      </div>
    </div>
  );
}
