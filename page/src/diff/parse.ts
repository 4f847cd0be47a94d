/** A unified patch as files, hunks and lines with their numbers; pairs of changed lines know which words changed. */

import { diffWordsWithSpace } from "diff";

export interface DiffLine {
  kind: "same" | "add" | "del";
  text: string;
  number: number | null;
  /** Ranges of changed words, where the line has a counterpart. */
  words: [from: number, to: number][];
}

export interface Hunk {
  heading: string;
  lines: DiffLine[];
}

export interface DiffFile {
  path: string;
  note: string;
  added: number;
  removed: number;
  hunks: Hunk[];
}

const HUNK = /^@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)$/;

/** Reads what git writes, line by line; a patch that was cut in the middle of a hunk is read as far as it goes. */
export function parseFiles(patch: string): DiffFile[] {
  const files: DiffFile[] = [];
  let names = { before: "", after: "" };
  let file: DiffFile | null = null;
  let hunk: Hunk | null = null;
  let number = 0;
  const begin = (path: string): DiffFile => {
    file = { path, note: "", added: 0, removed: 0, hunks: [] };
    hunk = null;
    files.push(file);
    return file;
  };
  for (const line of patch.replace(/\n$/, "").split("\n")) {
    const head = HUNK.exec(line);
    if (head) {
      hunk = { heading: head[2] ?? "", lines: [] };
      (file ?? begin(names.after || names.before || "?")).hunks.push(hunk);
      number = Number(head[1]);
    } else if (line.startsWith("diff --git ")) {
      names = { before: "", after: "" };
      begin(/ b\/(.*)$/.exec(line)?.[1] ?? line.slice(11));
    } else if (!hunk || (line.startsWith("--- ") && isHeader(hunk))) readHeader(line);
    else number = addLine(hunk as Hunk, file as DiffFile | null, line, number);
  }
  for (const one of files) for (const part of one.hunks) markWords(part.lines);
  return files;

  function readHeader(line: string): void {
    if (line.startsWith("--- ")) {
      names = { before: clean(line.slice(4)), after: "" };
      if (!file || file.hunks.length) begin(names.before);
    } else if (line.startsWith("+++ ") && file) {
      names.after = clean(line.slice(4));
      file.path = names.after || names.before || file.path;
      file.note = !names.after
        ? "removed"
        : !names.before
          ? "new"
          : names.before !== names.after
            ? `was ${names.before}`
            : "";
    } else if (file && /^(Binary files|GIT binary patch|old mode|rename from)/.test(line)) {
      file.note = line.startsWith("rename")
        ? `was ${line.slice(12)}`
        : line.startsWith("old")
          ? "its mode changed"
          : "binary";
    }
    hunk = null;
  }
}

// Inside a hunk a line may begin with "---": it is a removed line, unless nothing of the hunk was read yet.
const isHeader = (hunk: Hunk): boolean => hunk.lines.length === 0;

function addLine(hunk: Hunk, file: DiffFile | null, line: string, number: number): number {
  const text = line.slice(1);
  if (line[0] === "\\") return number;
  if (line[0] === "-") {
    hunk.lines.push({ kind: "del", text, number: null, words: [] });
    if (file) file.removed += 1;
    return number;
  }
  const isNew = line[0] === "+";
  hunk.lines.push({ kind: isNew ? "add" : "same", text, number, words: [] });
  if (file && isNew) file.added += 1;
  return number + 1;
}

function clean(name: string): string {
  const path = name.split("\t")[0] ?? "";
  return path === "/dev/null" ? "" : path.replace(/^[ab]\//, "");
}

const LONGEST = 300;

/** Where as many lines came as went, each is set beside its counterpart. */
function markWords(lines: DiffLine[]): void {
  for (let at = 0; at < lines.length; ) {
    let gone = at;
    while (lines[gone]?.kind === "del") gone += 1;
    let come = gone;
    while (lines[come]?.kind === "add") come += 1;
    const many = gone - at;
    if (many && many === come - gone && many <= 20) {
      for (let k = 0; k < many; k += 1) {
        const before = lines[at + k];
        const after = lines[gone + k];
        if (before && after) setWords(before, after);
      }
    }
    at = Math.max(come, at + 1);
  }
}

function setWords(before: DiffLine, after: DiffLine): void {
  if (before.text.length > LONGEST || after.text.length > LONGEST) return;
  let left = 0;
  let right = 0;
  let same = 0;
  const gone: [number, number][] = [];
  const come: [number, number][] = [];
  for (const part of diffWordsWithSpace(before.text, after.text)) {
    const size = part.value.length;
    if (part.removed) gone.push([left, left + size]);
    else if (part.added) come.push([right, right + size]);
    else if (part.value.trim()) same += size;
    if (!part.added) left += size;
    if (!part.removed) right += size;
  }
  // Lines with little in common are a rewrite: marks on words would only be noise.
  if (same * 3 < Math.max(before.text.trim().length, after.text.trim().length)) return;
  before.words = gone;
  after.words = come;
}
