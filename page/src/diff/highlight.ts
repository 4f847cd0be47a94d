/** Syntax colours as pieces of text: highlight.js finds the tokens, its HTML is never used. */

import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import cpp from "highlight.js/lib/languages/cpp";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import json from "highlight.js/lib/languages/json";
import markdown from "highlight.js/lib/languages/markdown";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import typescript from "highlight.js/lib/languages/typescript";
import yaml from "highlight.js/lib/languages/yaml";

for (const [name, language] of Object.entries({
  bash,
  cpp,
  go,
  ini,
  java,
  json,
  markdown,
  python,
  rust,
  typescript,
  yaml,
})) {
  hljs.registerLanguage(name, language);
}

const ENDINGS: Record<string, string> = {
  c: "cpp",
  cc: "cpp",
  cpp: "cpp",
  cu: "cpp",
  cuh: "cpp",
  cxx: "cpp",
  h: "cpp",
  hh: "cpp",
  hpp: "cpp",
  go: "go",
  java: "java",
  js: "typescript",
  jsx: "typescript",
  json: "json",
  md: "markdown",
  mjs: "typescript",
  cfg: "ini",
  ini: "ini",
  toml: "ini",
  py: "python",
  pyi: "python",
  pyx: "python",
  rs: "rust",
  sh: "bash",
  ts: "typescript",
  tsx: "typescript",
  yaml: "yaml",
  yml: "yaml",
};

export function languageOf(path: string): string | null {
  return ENDINGS[path.split(".").pop()?.toLowerCase() ?? ""] ?? null;
}

export interface Token {
  text: string;
  kind: "keyword" | "comment" | "number" | "string" | "name" | "";
}

const KINDS: [RegExp, Token["kind"]][] = [
  [/^(keyword|meta|literal|built_in|type|operator|tag)/, "keyword"],
  [/^comment|^quote|^doctag/, "comment"],
  [/^number|^symbol/, "number"],
  [/^string|^regexp|^char/, "string"],
  [/^title|^section|^attr|^property/, "name"],
];

const kindOf = (scope: string | undefined): Token["kind"] =>
  KINDS.find(([pattern]) => scope && pattern.test(scope))?.[1] ?? "";

interface Branch {
  scope?: string;
  children: (Branch | string)[];
}

/** The tokens of several lines, one list a line. Lines of one hunk are read together, so that a long comment stays one. */
export function tokenLines(code: string[], language: string | null): Token[][] {
  const plain = code.map((text): Token[] => [{ text, kind: "" }]);
  const whole = code.join("\n");
  if (!language || whole.length > 60_000) return plain;
  let root: Branch;
  try {
    const result = hljs.highlight(whole, { language, ignoreIllegals: true }) as unknown as {
      _emitter: { rootNode: Branch };
    };
    root = result._emitter.rootNode;
  } catch {
    return plain;
  }
  const lines: Token[][] = [[]];
  const walk = (branch: Branch, kind: Token["kind"]): void => {
    for (const child of branch.children) {
      if (typeof child !== "string") walk(child, kindOf(child.scope) || kind);
      else
        child.split("\n").forEach((text, index) => {
          if (index) lines.push([]);
          if (text) lines[lines.length - 1]?.push({ text, kind });
        });
    }
  };
  walk(root, "");
  return lines.length === code.length ? lines : plain;
}

/** Cut tokens at the edges of changed words, so that both can be shown. */
export function withWords(tokens: Token[], words: [number, number][]): (Token & { isChanged: boolean })[] {
  if (!words.length) return tokens.map((token) => ({ ...token, isChanged: false }));
  const edges = words.flat();
  const cut: (Token & { isChanged: boolean })[] = [];
  let at = 0;
  for (const token of tokens) {
    const end = at + token.text.length;
    const stops = [...edges.filter((edge) => edge > at && edge < end), end];
    let from = at;
    for (const stop of stops) {
      cut.push({
        text: token.text.slice(from - at, stop - at),
        kind: token.kind,
        isChanged: words.some(([low, high]) => from >= low && stop <= high),
      });
      from = stop;
    }
    at = end;
  }
  return cut;
}
