/** The list of keys. */

import type { JSX } from "preact";
import { Sheet } from "../parts/sheet";
import { asked } from "./asked";

const KEYS: [string, string][] = [
  ["find", "/"],
  ["overview, tree …", "g o, g t"],
  ["next, previous node", "j, k"],
  ["next, previous kept", "J, K"],
  ["parent, first kept child", "h, l"],
  ["the best node", "b"],
  ["compare", "c"],
  ["fit the map", "f"],
  ["light or dark", "d"],
  ["actions", "."],
  ["close", "Esc"],
  ["this list", "?"],
];

export function KeysSheet(): JSX.Element {
  const close = (): void => {
    asked.value = null;
  };
  return (
    <Sheet title="Keys" onClose={close}>
      <div class="keys">
        {KEYS.map(([what, key]) => (
          <div key={key}>
            {what}
            <kbd>{key}</kbd>
          </div>
        ))}
      </div>
      <div class="ends">
        <button type="button" class="btn" onClick={close}>
          Close
        </button>
      </div>
    </Sheet>
  );
}
