/** Logs by pieces: the end first, earlier pieces when asked for. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { address, get } from "../../api/client";
import type { LogPart, NodeDetail } from "../../api/node";
import { Seg } from "../../parts/blocks";
import { Pieces, Said } from "../../parts/said";
import { bytes } from "../../text/numbers";

const PIECE = 65_536;

function LogView({ node, name }: { node: NodeDetail; name: string }): JSX.Element {
  const [parts, setParts] = useState<LogPart[]>([]);
  const [error, setError] = useState("");
  const path = `/api/node/${encodeURIComponent(node.id)}/log`;
  const load = (from: number, size: number): Promise<LogPart> =>
    get<LogPart>(address(path, { name, from, bytes: size }));
  useEffect(() => {
    setParts([]);
    load(-PIECE, PIECE).then(
      (part) => setParts([part]),
      (refused: Error) => setError(refused.message),
    );
  }, [path, name]);
  const first = parts[0];
  if (error) return <p class="ill">{error}</p>;
  if (!first) return <p class="dim">Loading…</p>;
  const loadEarlier = (): void => {
    const from = Math.max(0, first.from - PIECE);
    load(from, first.from - from).then(
      (part) => setParts([part, ...parts]),
      (refused: Error) => setError(refused.message),
    );
  };
  return (
    <>
      {first.from > 0 && (
        <button type="button" class="btn low" onClick={loadEarlier}>
          Show earlier output, {bytes(first.from)} before this
        </button>
      )}
      <pre class="quoted tail" tabIndex={0} role="log" aria-label={`Log ${name}`}>
        {parts.map((part) => (
          <Pieces key={part.from} text={part.text.replace(/\r\n/g, "\n")} />
        ))}
        {first.size === 0 && "It is empty."}
      </pre>
    </>
  );
}

export function LogsTab({ node }: { node: NodeDetail }): JSX.Element {
  const [name, setName] = useState(node.logs[0]?.name ?? "");
  const { outcome } = node;
  return (
    <div class="panel parts">
      {outcome && outcome.ending !== "finished" && (
        <>
          <div class="who">
            <b>Why it ended: {outcome.ending}</b>
            {node.explanation && <Said text={node.explanation} />}
          </div>
          {outcome.error_lines.length > 0 && (
            <pre class="quoted">
              <Pieces text={outcome.error_lines.join("\n")} />
            </pre>
          )}
        </>
      )}
      {node.logs.length > 1 && (
        <Seg
          name="Log"
          options={node.logs.map((log) => [log.name, `${log.name}, ${bytes(log.bytes)}`])}
          value={name}
          onPick={setName}
        />
      )}
      {name ? (
        <LogView key={name} node={node} name={name} />
      ) : (
        <p class="mid">
          {node.files_removed ? "Its files were removed to free space; the record stays." : "It wrote no log."}
        </p>
      )}
    </div>
  );
}
