/** Search over all nodes: ids, changes, operators, parameters, verdicts. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { address, get } from "../api/client";
import type { Found } from "../api/tables";
import { go, nodeLink } from "../state/route";
import { places, shownRun } from "../state/store";
import { nodeName } from "../text/ids";
import { number, plural } from "../text/numbers";
import { Icon } from "./icon";
import { MarkIcon } from "./marks";
import { Said } from "./said";

export function Find(): JSX.Element {
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const [found, setFound] = useState<Found | null>(null);
  const [error, setError] = useState("");
  const [at, setAt] = useState(0);
  const [isOpen, setOpen] = useState(false);

  useEffect(() => {
    const focus = (): void => {
      setOpen(true);
      requestAnimationFrame(() => {
        input.current?.focus();
        input.current?.select();
      });
    };
    document.addEventListener("find", focus);
    return () => document.removeEventListener("find", focus);
  }, []);

  useEffect(() => {
    if (!text.trim()) {
      setFound(null);
      return undefined;
    }
    const abort = new AbortController();
    const timer = window.setTimeout(() => {
      get<Found>(address("/api/find", { q: text, run: shownRun.value, limit: 20 }), abort.signal).then(
        (answer) => {
          setFound(answer);
          setError("");
          setAt(0);
        },
        (refused: Error) => !abort.signal.aborted && setError(refused.message),
      );
    }, 120);
    return () => {
      abort.abort();
      window.clearTimeout(timer);
    };
  }, [text]);

  const close = (): void => {
    setOpen(false);
    setFound(null);
    setText("");
    input.current?.blur();
  };
  const open = (id: string | undefined): void => {
    if (!id) return;
    go(nodeLink(id));
    close();
  };
  const onKey = (event: KeyboardEvent): void => {
    const many = found?.hits.length ?? 0;
    if (event.key === "ArrowDown") setAt(Math.min(at + 1, many - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(at - 1, 0));
    else if (event.key === "Enter") open(found?.hits[at]?.id);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  };
  const isShown = isOpen && (found !== null || error !== "");
  return (
    <search class={`find ${isOpen ? "open" : "shut"}`}>
      <label>
        <span class="sr">Find</span>
        <Icon name="find" />
        <input
          ref={input}
          role="combobox"
          aria-expanded={isShown}
          aria-controls="hits"
          aria-autocomplete="list"
          {...(isShown && found?.hits[at] ? { "aria-activedescendant": `hit-${at}` } : {})}
          autocomplete="off"
          spellcheck={false}
          placeholder="Find a node, change or verdict"
          value={text}
          onFocus={() => setOpen(true)}
          onBlur={() => window.setTimeout(() => setOpen(false), 150)}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={onKey}
        />
        <kbd class="wide">/</kbd>
      </label>
      {isShown && (
        <div class="hits">
          {error && <p class="ill">{error}</p>}
          <div id="hits" role="listbox" aria-label="Nodes found">
            {found?.hits.map((hit, index) => (
              <div
                key={hit.id}
                id={`hit-${index}`}
                role="option"
                aria-selected={index === at}
                onClick={() => open(hit.id)}
              >
                <MarkIcon mark={hit.mark} />
                <Said text={hit.summary || "the baseline"} class="clip" />
                <span class="dim">{number(hit.score, places.value)}</span>
                <span class="below dim small">
                  <span class="mono">{nodeName(hit)}</span> <Said text={hit.operator} />
                </span>
              </div>
            ))}
          </div>
          <p class="dim small" role="status">
            {found?.total ? `${plural(found.total, "node")} found` : "No node has all these words."}
          </p>
        </div>
      )}
    </search>
  );
}
