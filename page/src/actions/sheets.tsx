/** The open sheet, if any, and the answer of the last action. */

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Icon } from "../parts/icon";
import { Said } from "../parts/said";
import { Sheet } from "../parts/sheet";
import { go, link, VIEWS } from "../state/route";
import { isDriven, isPaused, session } from "../state/store";
import { ActionSheet } from "./action_sheet";
import { type ActionName, ask, asked, said } from "./asked";
import { KeysSheet } from "./keys_sheet";
import { ACTION_LABELS, isAction } from "./wording";

export function runActions(): ActionName[] {
  const known = new Set(session.value?.actions ?? []);
  const wanted: ActionName[] = ["direct"];
  if (isPaused.value) wanted.push("resume");
  else if (isDriven.value) wanted.push("pause");
  if (isDriven.value) wanted.push("stop");
  wanted.push("budget");
  return wanted.filter((name) => known.has(name));
}

export function Sheets(): JSX.Element | null {
  const open = asked.value;
  if (!open) return null;
  if (open.action === "menu") return <MenuSheet />;
  if (open.action === "keys") return <KeysSheet />;
  return isAction(open.action) ? <ActionSheet key={open.action} {...open} action={open.action} /> : null;
}

function MenuSheet(): JSX.Element {
  const close = (): void => {
    asked.value = null;
  };
  return (
    <Sheet title="Actions" onClose={close}>
      <div class="menu">
        {runActions().map((name) => (
          <button key={name} type="button" class="btn" onClick={() => ask(name)}>
            {ACTION_LABELS[name]}
          </button>
        ))}
        <div class="phone menu-views">
          {VIEWS.map((view) => (
            <button
              key={view.name}
              type="button"
              class="btn quiet"
              onClick={() => {
                close();
                go(link(view.name));
              }}
            >
              <Icon name={view.name} />
              {view.label}
            </button>
          ))}
        </div>
      </div>
      <div class="ends">
        <button type="button" class="btn" onClick={close}>
          Close
        </button>
      </div>
    </Sheet>
  );
}

export function Toast(): JSX.Element | null {
  const last = said.value;
  useEffect(() => {
    if (!last) return undefined;
    const timer = window.setTimeout(() => {
      said.value = null;
    }, 12_000);
    return () => window.clearTimeout(timer);
  }, [last]);
  return (
    <div role="status">
      {last && (
        <div class={`toast ${last.isBad ? "bad" : ""}`}>
          <Said text={last.text} />
          <button
            type="button"
            onClick={() => {
              said.value = null;
            }}
          >
            Close
          </button>
        </div>
      )}
    </div>
  );
}
