/** What an axis says at a tick. */

import type { Axis } from "../api/overview";
import { count, dollars, duration, fixed, number, tokens } from "./numbers";

export function axisText(axis: Axis, value: number, isTokens = false): string {
  if (axis === "time")
    return value >= 36000 || value === 0
      ? `${fixed(value / 3600, 0)} h`
      : value >= 3600
        ? `${fixed(value / 3600, 1)} h`
        : duration(value);
  if (axis === "cost") return isTokens ? tokens(value) : dollars(value);
  return count(value);
}

export const scoreText = (value: number, places: number): string =>
  Math.abs(value) >= 1e6 ? tokens(value) : number(value, places);

export const AXIS_NAMES: Record<Axis, string> = {
  experiment: "experiment",
  time: "since the start",
  cost: "spent",
};
