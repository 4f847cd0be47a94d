/** Icons, as lines of one width. */

import type { JSX } from "preact";

const PATHS = {
  overview: "M3 12l4-5 4 3 6-7M3 17h14",
  tree: "M4 4v12M4 7h6M4 13h6M12 7h4M12 13h4",
  compare: "M7 3v14M13 3v14M3 6h4M13 14h4",
  parameters: "M4 5h12M4 10h12M4 15h12M7 3v4M13 8v4M9 13v4",
  operators: "M10 3v14M3 10h14",
  agents: "M10 9a3 3 0 100-6 3 3 0 000 6zM4 17c0-3 3-5 6-5s6 2 6 5",
  audit: "M10 3l6 2v5c0 4-3 6-6 7-3-1-6-3-6-7V5z",
  moon: "M16 11a6 6 0 01-8-8 7 7 0 108 8z",
  sun: "M10 6.5a3.5 3.5 0 100 7 3.5 3.5 0 000-7zM10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18M4.3 4.3l1 1M14.7 14.7l1 1M4.3 15.7l1-1M14.7 5.3l1-1",
  pause: "M7 4v12M13 4v12",
  play: "M6 4l10 6-10 6z",
  stop: "M5 5h10v10H5z",
  alert: "M10 3l8 14H2zM10 8v4M10 14.5v.5",
  check: "M4 10l4 4 8-9",
  cross: "M5 5l10 10M15 5L5 15",
  dash: "M5 10h10",
  find: "M9 15A6 6 0 109 3a6 6 0 000 12zM13.5 13.5L17 17",
  more: "M4 10h.01M10 10h.01M16 10h.01",
  note: "M4 4h12v9H9l-4 3v-3H4z",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }): JSX.Element {
  return (
    <svg
      viewBox="0 0 20 20"
      fill="none"
      stroke="currentColor"
      stroke-width={name === "more" ? 2.4 : 1.6}
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Brand(): JSX.Element {
  return (
    <svg viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="2.4" aria-hidden="true">
      <path d="M10 10C7 5 2 6 2 10s5 5 8 0 8-4 8 0-5 5-8 0z" />
    </svg>
  );
}
