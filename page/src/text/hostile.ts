/** Text that somebody else wrote: control, direction and escape characters become named pieces, long lines are cut. */

export type Piece = { kind: "text"; text: string } | { kind: "control"; name: string };

// C0 but tab and newline, DEL, C1, zero-width and direction marks, soft hyphen, line separators, tags, the byte order mark.
const ODD =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

const NAMES: Record<string, string> = {
  "\u0000": "NUL",
  "\u0007": "BEL",
  "\b": "BS",
  "\r": "CR",
  "\u001b": "ESC",
  "\u007f": "DEL",
};

export function nameOf(character: string): string {
  const named = NAMES[character];
  return named ?? `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let last = 0;
  for (const match of text.matchAll(ODD)) {
    if (match.index > last) found.push({ kind: "text", text: text.slice(last, match.index) });
    found.push({ kind: "control", name: nameOf(match[0]) });
    last = match.index + match[0].length;
  }
  if (last < text.length) found.push({ kind: "text", text: text.slice(last) });
  return found;
}

/** Windows line ends are line ends; a lone carriage return stays odd. */
export function lines(text: string): string[] {
  const all = text.replace(/\r\n/g, "\n").split("\n");
  if (all[all.length - 1] === "") all.pop();
  return all;
}

export const LONGEST_LINE = 2000;

export function cutLine(line: string, longest = LONGEST_LINE): { text: string; left: number } {
  return line.length <= longest
    ? { text: line, left: 0 }
    : { text: line.slice(0, longest), left: line.length - longest };
}

/** Any value as one line of text. */
export function valueText(value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value;
  if (typeof value === "number")
    return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6)));
  return JSON.stringify(value) ?? String(value);
}
