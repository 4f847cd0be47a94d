/** Scales and their ticks. */

export type Scale = (value: number) => number;

export function linear(from: [number, number], to: [number, number]): Scale {
  const span = from[1] - from[0] || 1;
  return (value) => to[0] + ((value - from[0]) / span) * (to[1] - to[0]);
}

export function ticks(low: number, high: number, wanted: number): number[] {
  if (!(high > low) || !Number.isFinite(high - low)) return [low];
  const raw = (high - low) / wanted;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * size).find((value) => value >= raw) ?? 10 * size;
  const found: number[] = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) found.push(at * step + 0);
  return found;
}

/** As many decimals as the ticks need to differ. */
export function tickPlaces(marks: number[]): number {
  const step = marks.length > 1 ? Math.abs((marks[1] ?? 0) - (marks[0] ?? 0)) : Math.abs(marks[0] ?? 1);
  if (!step) return 0;
  for (let places = 0; places < 8; places += 1)
    if (Math.abs(step * 10 ** places - Math.round(step * 10 ** places)) < 1e-6 * 10 ** places * step + 1e-9)
      return places;
  return 8;
}

export function extent(values: Iterable<number>): [number, number] | null {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : null;
}

/** A range with some air on both sides, also when all values are one. */
export function padded([low, high]: [number, number], part = 0.06): [number, number] {
  const air = (high - low) * part || Math.abs(high) * part || 1;
  return [low - air, high + air];
}

export const clamp = (value: number, low: number, high: number): number => Math.max(low, Math.min(high, value));
