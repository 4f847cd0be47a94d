/** Text that somebody else wrote, shown and never obeyed. */

import type { JSX } from "preact";
import { cutLine, pieces } from "../text/hostile";
import { count } from "../text/numbers";

export function Pieces({ text }: { text: string }): JSX.Element {
  return (
    <>
      {pieces(text).map((piece, index) =>
        piece.kind === "text" ? (
          piece.text
        ) : (
          <span key={index} class="control-char" title="a control character, shown and not obeyed">
            {piece.name}
          </span>
        ),
      )}
    </>
  );
}

export function Said({ text, class: name = "" }: { text: string; class?: string }): JSX.Element {
  const { text: shown, left } = cutLine(text, 400);
  return (
    <bdi class={`said ${name}`}>
      <Pieces text={shown} />
      {left > 0 && <span class="dim"> … {count(left)} more characters</span>}
    </bdi>
  );
}

/** A longer text with its line ends, in the dotted skin, under the name of who wrote it. */
export function Quoted({ text, who }: { text: string; who?: string }): JSX.Element {
  return (
    <div>
      {who && <div class="who">{who}</div>}
      <pre class="quoted" dir="auto">
        <Pieces text={text.replace(/\r\n/g, "\n")} />
      </pre>
    </div>
  );
}
