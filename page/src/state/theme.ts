/** Dark or light: as the system says until a person chooses. */

import { signal } from "@preact/signals";

type Theme = "light" | "dark";

const KEY = "loopty-theme";
const dark = globalThis.matchMedia?.("(prefers-color-scheme: dark)");

export const theme = signal<Theme>("light");

export function startTheme(): void {
  const wanted = localStorage.getItem(KEY);
  apply(wanted === "light" || wanted === "dark" ? wanted : dark?.matches ? "dark" : "light");
  dark?.addEventListener("change", (change) => {
    if (!localStorage.getItem(KEY)) apply(change.matches ? "dark" : "light");
  });
}

export function switchTheme(): void {
  apply(theme.value === "dark" ? "light" : "dark");
  localStorage.setItem(KEY, theme.value);
}

function apply(to: Theme): void {
  theme.value = to;
  document.documentElement.dataset.theme = to;
}
