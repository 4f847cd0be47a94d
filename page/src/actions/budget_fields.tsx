/** The fields of a budget: empty means no limit; only what changed is sent. */

import type { JSX } from "preact";
import { overview } from "../state/store";

const FIELDS: [name: string, label: string, mayBeEmpty: boolean][] = [
  ["attempts", "Attempts", false],
  ["control", "Random control trials", false],
  ["repeats", "Repeat measurements", true],
  ["tunes", "Tune trials", true],
  ["wall_seconds", "Time, in seconds", true],
  ["tokens", "Tokens", true],
  ["money_usd", "Money, in dollars", true],
];

export type Changes = Record<string, number | null>;

/** Text of the fields as changes; a string: what is wrong. */
export function readChanges(texts: Record<string, string>, now: Record<string, number | null>): Changes | string {
  const changes: Changes = {};
  for (const [name, label, mayBeEmpty] of FIELDS) {
    const text = texts[name];
    if (text === undefined) continue;
    const trimmed = text.trim();
    if (!trimmed) {
      if (!mayBeEmpty) return `${label}: give a number.`;
      if (now[name] !== null && now[name] !== undefined) changes[name] = null;
      continue;
    }
    const value = Number(trimmed.replace(/[,_]/g, ""));
    if (!Number.isFinite(value) || value < 0) return `${label}: "${trimmed}" is not a number of zero or more.`;
    if (value !== now[name]) changes[name] = value;
  }
  return changes;
}

export function BudgetFields({
  texts,
  onInput,
}: {
  texts: Record<string, string>;
  onInput(name: string, text: string): void;
}): JSX.Element {
  const now = overview.value?.budget ?? {};
  return (
    <div class="grid half tight">
      {FIELDS.filter(([name]) => name in now).map(([name, label], index) => (
        <label key={name} class="field">
          <span class="label">{label}</span>
          <input
            inputMode="decimal"
            name={name}
            data-first={index === 0 ? "" : undefined}
            placeholder="no limit"
            value={texts[name] ?? (now[name] === null || now[name] === undefined ? "" : String(now[name]))}
            onInput={(event) => onInput(name, event.currentTarget.value)}
          />
        </label>
      ))}
    </div>
  );
}
