/** The tag of a node that is a past version of the code: it stands beside the baseline, and is no attempt. */

import type { JSX } from "preact";

export function PastVersion(): JSX.Element {
  return <span class="tag beside">past version</span>;
}
