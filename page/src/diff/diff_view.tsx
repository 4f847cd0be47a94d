/** A diff with syntax colours; all of it is text. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Pieces } from "../parts/said";
import { cutLine } from "../text/hostile";
import { bytes, count, plural } from "../text/numbers";
import { languageOf, tokenLines, withWords } from "./highlight";
import { type DiffFile, type DiffLine, type Hunk, parseFiles } from "./parse";

const FIRST_LINES = 600;

export function DiffView({ patch, cut }: { patch: string; cut: number }): JSX.Element {
  const files = useMemo(() => parseFiles(patch), [patch]);
  if (!patch.trim()) return <p class="in dim">No file differs.</p>;
  return (
    <div class="diff">
      {files.map((file, index) => (
        <FileView key={`${file.path}${index}`} file={file} />
      ))}
      {cut > 0 && <p class="in dim">{bytes(cut)} more are left out; loopty diff shows all.</p>}
    </div>
  );
}

function FileView({ file }: { file: DiffFile }): JSX.Element {
  const total = file.hunks.reduce((sum, hunk) => sum + hunk.lines.length, 0);
  const [isWhole, setWhole] = useState(total <= FIRST_LINES);
  let room = isWhole ? Number.POSITIVE_INFINITY : FIRST_LINES;
  const language = languageOf(file.path);
  return (
    <section>
      <h3 class="file">
        <bdi>
          <Pieces text={file.path} />
        </bdi>
        <span class="dim">
          +{count(file.added)} −{count(file.removed)} {file.note}
        </span>
      </h3>
      <section class="code" tabIndex={0} aria-label="Lines of the file">
        {file.hunks.map((hunk, index) => {
          if (room <= 0) return null;
          const shown = hunk.lines.slice(0, room);
          room -= shown.length;
          return <HunkView key={index} hunk={{ ...hunk, lines: shown }} language={language} />;
        })}
      </section>
      {!isWhole && (
        <button type="button" class="btn low all" onClick={() => setWhole(true)}>
          Show {plural(total - FIRST_LINES, "more line")}
        </button>
      )}
    </section>
  );
}

const SIGNS = { add: "+", del: "−", same: "" };
const WORDS = { add: "added", del: "removed", same: "" };

function HunkView({ hunk, language }: { hunk: Hunk; language: string | null }): JSX.Element {
  const tokens = useMemo(() => sideTokens(hunk.lines, language), [hunk.lines, language]);
  return (
    <div>
      <div class="ln hunk">
        <span>…</span>
        <span />
        <pre>
          <Pieces text={cutLine(hunk.heading, 200).text} />
        </pre>
      </div>
      {hunk.lines.map((line, index) => (
        <div key={index} class={`ln ${line.kind}`}>
          <span>{line.number ?? ""}</span>
          <span>
            {SIGNS[line.kind]}
            {WORDS[line.kind] && <span class="sr">{WORDS[line.kind]}</span>}
          </span>
          <pre dir="ltr">
            <Code line={line} tokens={tokens[index] ?? []} />
          </pre>
        </div>
      ))}
    </div>
  );
}

/** Old and new lines are two texts: each side is read by itself. */
function sideTokens(lines: DiffLine[], language: string | null): ReturnType<typeof tokenLines> {
  const result: ReturnType<typeof tokenLines> = lines.map(() => []);
  for (const kind of ["del", "add"] as const) {
    const picked = lines
      .map((line, index) => ({ line, index }))
      .filter(({ line }) => line.kind === kind || line.kind === "same");
    const tokens = tokenLines(
      picked.map(({ line }) => line.text),
      language,
    );
    picked.forEach(({ index }, at) => {
      result[index] = tokens[at] ?? [];
    });
  }
  return result;
}

function Code({ line, tokens }: { line: DiffLine; tokens: ReturnType<typeof tokenLines>[number] }): JSX.Element {
  const { text, left } = cutLine(line.text);
  if (left) {
    return (
      <>
        <Pieces text={text} />
        <span class="dim"> … {count(left)} more characters</span>
      </>
    );
  }
  return (
    <>
      {withWords(tokens, line.words).map((token, index) => (
        <span key={index} class={`${token.kind ? `token-${token.kind}` : ""} ${token.isChanged ? "word" : ""}`}>
          <Pieces text={token.text} />
        </span>
      ))}
    </>
  );
}
