/** Cards, switches, notes: the blocks of every view. */

import type { ComponentChildren, JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { Icon } from "./icon";

interface CardProps {
  title?: ComponentChildren;
  more?: ComponentChildren;
  tools?: ComponentChildren;
  class?: string;
  children?: ComponentChildren;
}

export function Card({ title, more, tools, class: name = "", children }: CardProps): JSX.Element {
  return (
    <section class={`card ${name}`}>
      {title && (
        <header>
          <h2>{title}</h2>
          {more && <span class="more">{more}</span>}
          {tools && <div class="tools">{tools}</div>}
        </header>
      )}
      {children}
    </section>
  );
}

interface SegProps<T extends string> {
  name: string;
  options: [T, string][];
  value: T;
  onPick(value: T): void;
}

export function Seg<T extends string>({ name, options, value, onPick }: SegProps<T>): JSX.Element {
  return (
    <div class="seg" role="group" aria-label={name}>
      {options.map(([key, label]) => (
        <button key={key} type="button" aria-pressed={key === value} onClick={() => onPick(key)}>
          {label}
        </button>
      ))}
    </div>
  );
}

export function Scroll({ label, children }: { label: string; children: ComponentChildren }): JSX.Element {
  return (
    <section class="scroll" tabIndex={0} aria-label={label}>
      {children}
    </section>
  );
}

export function Facts({ rows }: { rows: [ComponentChildren, ComponentChildren][] }): JSX.Element {
  return (
    <dl class="kv">
      {rows.map(([name, value], index) => (
        <>
          <dt key={`${index}-name`}>{name}</dt>
          <dd key={index}>{value}</dd>
        </>
      ))}
    </dl>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <h2 class="title">{title}</h2>
      {children}
    </div>
  );
}

export function Command({ text }: { text: string }): JSX.Element {
  const [isCopied, setCopied] = useState(false);
  const box = useRef<HTMLElement>(null);
  const copy = (): void => {
    // Where the clipboard is refused (no secure context), the text is selected for the reader.
    const select = (): void => {
      if (box.current) getSelection()?.selectAllChildren(box.current);
    };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => setCopied(true), select);
    else select();
  };
  return (
    <div class="copy">
      <code class="cmd" ref={box}>
        {text}
      </code>
      <button type="button" class="btn low" onClick={copy}>
        {isCopied ? "Copied" : "Copy"}
      </button>
    </div>
  );
}

export function Sure({ state }: { state: "pass" | "fail" | "missing" }): JSX.Element {
  return <Icon name={state === "pass" ? "check" : state === "fail" ? "cross" : "dash"} />;
}

export function Bones(): JSX.Element {
  return (
    <div class="grid" aria-busy="true">
      <span class="sr" role="status">
        Loading
      </span>
      <div class="bone" style={{ height: "132px" }} />
      <div class="bone" style={{ height: "320px" }} />
    </div>
  );
}

/** What to show while an answer is on its way, or when it was refused. */
export function Wait({ error }: { error: string }): JSX.Element {
  if (!error) return <Bones />;
  return (
    <div class="alert bad" role="alert">
      <Icon name="alert" />
      <span>{error}</span>
    </div>
  );
}
