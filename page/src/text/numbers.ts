/** Numbers as a reader wants them: one count of decimals per metric, a real minus sign, units that fit. */

const MINUS = "−";

export function fixed(value: number, digits: number): string {
  const text = value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return /[1-9]/.test(text) ? text.replace("-", MINUS) : text.replace("-", "");
}

export function count(value: number): string {
  return fixed(value, 0);
}

/** Decimals that show the first digit of the noise and no more; without noise four digits of the score. */
export function decimals(half: number | null, score: number | null): number {
  if (half && half > 0) return clampPlaces(-Math.floor(Math.log10(half / 1.5)));
  if (!score || !Number.isFinite(score)) return 2;
  return clampPlaces(3 - Math.floor(Math.log10(Math.abs(score))));
}

const clampPlaces = (places: number): number => Math.max(0, Math.min(6, places));

export function number(value: number | null | undefined, places: number): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9 || (size > 0 && size < 10 ** -places / 2)) return value.toPrecision(3).replace(/-/g, MINUS);
  return fixed(value, places);
}

/** A figure of which nothing is known but itself: four digits, without zeros that say nothing. */
export function figure(value: number | null | undefined): string {
  const text = number(value, value ? decimals(null, value) : 0);
  return text.includes(".") && !text.includes("e") ? text.replace(/\.?0+$/, "") : text;
}

export function signed(value: number, digits = 1): string {
  const text = fixed(Math.abs(value), digits);
  return (value < 0 && Number(text.replace(/,/g, "")) !== 0 ? MINUS : "+") + text;
}

/** A change in percent: fewer digits when it is large, the first digit that is not zero when it is small. */
export function percent(value: number | null | undefined, digits?: number): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const places = size >= 100 ? 0 : size >= 0.05 || size === 0 ? 1 : Math.min(4, -Math.floor(Math.log10(size)));
  return `${signed(value, digits ?? places)} %`;
}

export function share(value: number | null | undefined, digits = 0): string {
  return value === null || value === undefined ? "–" : `${fixed(value * 100, digits)} %`;
}

export function times(value: number): string {
  return `${value >= 100 ? fixed(value, 0) : value >= 10 ? fixed(value, 1) : fixed(value, 2)}×`;
}

/** A limit in dollars: whole ones without cents. */
export function dollarLimit(value: number): string {
  return Number.isInteger(value) ? `$${count(value)}` : dollars(value);
}

export function dollars(value: number): string {
  return `$${value > 0 && value < 0.01 ? value.toPrecision(1) : fixed(value, 2)}`;
}

export function tokens(value: number): string {
  if (value >= 1e9) return `${fixed(value / 1e9, 2)} G`;
  if (value >= 1e6) return `${fixed(value / 1e6, 2)} M`;
  if (value >= 1e4) return `${fixed(value / 1e3, 0)} k`;
  return count(value);
}

export function bytes(value: number): string {
  if (value >= 1e9) return `${fixed(value / 1e9, 0)} GB`;
  if (value >= 1e6) return `${fixed(value / 1e6, 1)} MB`;
  if (value >= 1e3) return `${fixed(value / 1e3, 0)} kB`;
  return `${count(value)} B`;
}

export function duration(seconds: number): string {
  if (seconds < 1) return seconds > 0 ? `${Math.max(1, Math.round(seconds * 1000))} ms` : "0 s";
  if (seconds < 10 && seconds % 1 > 0.05) return `${fixed(seconds, 1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800)
    return `${Math.floor(seconds / 3600)} h ${String(Math.floor((seconds % 3600) / 60)).padStart(2, "0")} min`;
  return `${Math.floor(seconds / 86400)} days`;
}

/** A whole number of seconds, for what counts up before the reader's eyes. */
export function age(seconds: number): string {
  return duration(Math.max(0, Math.floor(seconds)));
}

export function clock(at: number): string {
  const time = new Date(at * 1000);
  const text = time.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  const isToday = time.toDateString() === new Date().toDateString();
  return isToday ? text : `${time.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${text}`;
}

export function plural(amount: number, one: string, many = `${one}s`): string {
  return `${count(amount)} ${amount === 1 ? one : many}`;
}
