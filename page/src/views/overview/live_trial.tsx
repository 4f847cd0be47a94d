/** The live log of a trial, and its curve as it grows. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { address, get } from "../../api/client";
import type { LogPart } from "../../api/node";
import type { Running } from "../../api/overview";
import { Facts } from "../../parts/blocks";
import { Pieces, Said } from "../../parts/said";
import { Sheet } from "../../parts/sheet";
import { nodeLink } from "../../state/route";
import { figure } from "../../text/numbers";

const TAIL = 65_536;
const PAUSE = 1000;

/** Follow the end of a log: each question asks only for what is new. */
function useTail(trial: string, isOver: boolean): { text: string; error: string } {
  const [text, setText] = useState("");
  const [error, setError] = useState("");
  const at = useRef(-TAIL);
  useEffect(() => {
    let timer = 0;
    const abort = new AbortController();
    const ask = (): void => {
      get<LogPart>(
        address(`/api/trial/${encodeURIComponent(trial)}/tail`, { from: at.current, bytes: TAIL }),
        abort.signal,
      ).then(
        (part) => {
          setError("");
          if (part.text) setText((old) => (old + part.text).slice(-4 * TAIL));
          at.current = part.to;
          if (!isOver) timer = window.setTimeout(ask, PAUSE);
        },
        (refused: Error) => {
          if (abort.signal.aborted) return;
          setError(refused.message);
          if (!isOver) timer = window.setTimeout(ask, PAUSE * 3);
        },
      );
    };
    ask();
    return () => {
      abort.abort();
      window.clearTimeout(timer);
    };
  }, [trial, isOver]);
  return { text, error };
}

export function LiveTrial({
  row,
  isOver,
  onClose,
}: {
  row: Running;
  isOver: boolean;
  onClose(): void;
}): JSX.Element {
  const { text, error } = useTail(row.trial, isOver);
  const box = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    if (text && isAtEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  return (
    <Sheet title={isOver ? `Trial ${row.trial} has ended` : `Trial ${row.trial}`} onClose={onClose}>
      <p class="mid">
        <Said text={row.operator} />, <Said text={row.phase} />
      </p>
      {row.row && (
        <Facts
          rows={Object.entries(row.row).map(([name, value]) => [<Said key={name} text={name} />, figure(value)])}
        />
      )}
      {error && <p class="dim">{error}</p>}
      <pre
        class="quoted tail"
        ref={box}
        tabIndex={0}
        role="log"
        aria-label="Output"
        onScroll={(event) => {
          const pre = event.currentTarget;
          isAtEnd.current = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 40;
        }}
      >
        {text ? <Pieces text={text.replace(/\r\n/g, "\n")} /> : "No output yet."}
      </pre>
      <div class="ends">
        {row.node && (
          <a class="btn" href={nodeLink(row.node.id)} onClick={onClose}>
            Open the node
          </a>
        )}
        <button type="button" class="btn" data-first="" onClick={onClose}>
          Close
        </button>
      </div>
    </Sheet>
  );
}
