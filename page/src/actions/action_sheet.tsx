/** The sheet of one action: what it would do in numbers, the command that does the same, and the verb. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { act, type Done } from "../api/client";
import { Said } from "../parts/said";
import { Sheet } from "../parts/sheet";
import { canAct, overview, refreshOverview, shownRun } from "../state/store";
import { lines } from "../text/hostile";
import { type ActionName, type Asked, asked, said } from "./asked";
import { BudgetFields, readChanges } from "./budget_fields";
import { WORDING } from "./wording";

const RUN_ACTIONS = new Set<ActionName>(["direct", "pause", "resume", "stop", "budget"]);

interface Filled {
  text: string;
  why: string;
  typed: string;
  fields: Record<string, string>;
}

function bodyOf(action: ActionName, node: string | undefined, filled: Filled): Record<string, unknown> | string {
  const body: Record<string, unknown> = {};
  if (RUN_ACTIONS.has(action) && shownRun.value !== null) body.run = shownRun.value;
  if (node) body.node = node;
  if (action === "direct") body.text = filled.text;
  if (WORDING[action].wantsWhy) body.why = filled.why;
  if (action === "budget") {
    const changes = readChanges(filled.fields, overview.value?.budget ?? {});
    if (typeof changes === "string") return changes;
    body.changes = changes;
  }
  return body;
}

export function ActionSheet({
  action,
  node,
  name,
  summary,
  text = "",
}: Asked & { action: ActionName }): JSX.Element {
  const wording = WORDING[action];
  const [filled, setFilled] = useState<Filled>({
    text: text || (action === "direct" ? (overview.peek()?.directive ?? "") : ""),
    why: "",
    typed: "",
    fields: {},
  });
  const [plan, setPlan] = useState<Done | null>(null);
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const body = bodyOf(action, node, filled);
  const asText = JSON.stringify(body);

  // Each change of the fields asks the server anew what would happen; nothing is done yet.
  useEffect(() => {
    if (typeof body === "string") {
      setError(body);
      return undefined;
    }
    let isOver = false;
    const timer = window.setTimeout(
      () => {
        act(action, { ...body, why: body.why || "…", dry: true }).then(
          (done) => {
            if (isOver) return;
            setPlan(done);
            setError("");
          },
          (refused: Error) => !isOver && setError(refused.message),
        );
      },
      250 * Number(plan !== null),
    );
    return () => {
      isOver = true;
      window.clearTimeout(timer);
    };
  }, [asText]);

  const confirm = plan?.confirm ?? null;
  const isReady =
    !isBusy &&
    canAct.value &&
    plan !== null &&
    typeof body !== "string" &&
    (confirm === null || filled.typed === confirm);
  const close = (): void => {
    asked.value = null;
  };
  const carryOut = (): void => {
    if (!isReady || typeof body === "string") return;
    setBusy(true);
    act(action, confirm === null ? body : { ...body, confirm }).then(
      (done) => {
        said.value = { text: done.text, isBad: false };
        refreshOverview().catch(() => undefined);
        close();
      },
      (refused: Error) => {
        setError(refused.message);
        setBusy(false);
      },
    );
  };
  return (
    <Sheet title={wording.title} onClose={close}>
      {node && (
        <div class="mid">
          <span class="mono">{name}</span> {summary && <Said text={summary} />}
        </div>
      )}
      {action === "direct" && (
        <label class="field">
          <span class="label">
            Goes into every prompt from the next one on, marked as yours; empty removes it.
          </span>
          <textarea
            data-first=""
            maxLength={4000}
            value={filled.text}
            onInput={(event) => setFilled({ ...filled, text: event.currentTarget.value })}
          />
        </label>
      )}
      {action === "budget" && (
        <BudgetFields
          texts={filled.fields}
          onInput={(name, value) => setFilled({ ...filled, fields: { ...filled.fields, [name]: value } })}
        />
      )}
      <ul aria-live="polite">
        {plan
          ? lines(plan.text).map((line, index) => (
              <li key={index}>
                <Said text={line} />
              </li>
            ))
          : !error && <li>Asking what this would do…</li>}
      </ul>
      {wording.wantsWhy && (
        <label class="field">
          <span class="label">Why (goes into the record)</span>
          <input
            name="why"
            maxLength={500}
            value={filled.why}
            onInput={(event) => setFilled({ ...filled, why: event.currentTarget.value })}
          />
        </label>
      )}
      {confirm !== null && (
        <label class="field">
          <span class="label">
            Type its name, <b class="mono">{confirm}</b>, to confirm
          </span>
          <input
            name="confirm"
            class="mono"
            autocomplete="off"
            value={filled.typed}
            onInput={(event) => setFilled({ ...filled, typed: event.currentTarget.value })}
          />
        </label>
      )}
      {plan?.command && (
        <div class="cmd">
          <Said text={plan.command} />
        </div>
      )}
      {error && (
        <p class="ill" role="alert">
          <Said text={error} />
        </p>
      )}
      {!canAct.value && <p class="ill">The server is not connected: actions are off.</p>}
      <div class="ends">
        <button
          type="button"
          class="btn"
          data-first={action === "direct" || action === "budget" ? undefined : ""}
          onClick={close}
        >
          Cancel
        </button>
        <button
          type="button"
          class={`btn main ${wording.isDangerous ? "danger" : ""}`}
          disabled={!isReady}
          onClick={carryOut}
        >
          {wording.verb}
        </button>
      </div>
    </Sheet>
  );
}
