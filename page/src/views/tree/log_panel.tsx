/** The log: a commit graph of kept nodes, newest on top, with the strip of all tries from each. */

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { said } from "../../actions/asked";
import { address, get } from "../../api/client";
import type { Log, LogRow } from "../../api/tables";
import { Graph, useLanes } from "../../charts/graph";
import { Strip, stripZero } from "../../charts/strip";
import { Empty, Wait } from "../../parts/blocks";
import { hidden } from "../../parts/legend";
import { PastVersion } from "../../parts/past_version";
import { Said } from "../../parts/said";
import { useQuery } from "../../state/query";
import { nodeLink } from "../../state/route";
import { overview, places, shownRun } from "../../state/store";
import { nodeName } from "../../text/ids";
import { clock, count, number, percent, plural } from "../../text/numbers";
import { freshRows, mergeRows } from "./log_rows";

const isPhone = (): boolean => innerWidth <= 760;

function RowView({
  row,
  log,
  left,
  onBranch,
}: {
  row: LogRow;
  log: Log;
  left: number;
  onBranch(): void;
}): JSX.Element {
  return (
    <li class={row.on_best_path ? "on" : ""} style={{ paddingLeft: `${left}px` }}>
      <a class="what" href={nodeLink(row.id)}>
        <Said class="clip first" text={row.summary || "the baseline"} />
        <span class="sub">
          <span class="mono nowrap">{nodeName(row)}</span>
          <Said class="clip" text={row.operator} />
          <span class="nowrap">{clock(row.at)}</span>
          {row.parents.length > 0 && <span class="clip">with {row.parents.map(nodeName).join(", ")}</span>}
          {row.pool === "version" && <PastVersion />}
          {row.best && <span class="tag">best</span>}
        </span>
      </a>
      <b class="num">{number(row.score, places.value)}</b>
      <span class="num gain">{row.parent === null ? "" : percent(row.gain_percent)}</span>
      <span class="strip-cell">
        <Strip row={row} log={log} hidden={hidden.value} />
      </span>
      <span class="num dim tries">
        {row.fold > 0 ? (
          <button
            type="button"
            class="open-branch"
            onClick={onBranch}
            aria-label={`Open the branch: ${plural(row.fold, "more kept node")}`}
          >
            ▸ {count(row.fold)} kept
          </button>
        ) : (
          count(row.tries)
        )}
      </span>
    </li>
  );
}

export function LogPanel(): JSX.Element {
  const over = useRef(false);
  const first = useQuery<Log>(address("/api/log", { run: shownRun.value, limit: 100 }), { every: 2 });
  const [shown, setShown] = useState<Log | null>(null);
  const [older, setOlder] = useState<Log[]>([]);
  const [branches, setBranches] = useState<ReadonlyMap<string, Log>>(new Map());
  // New rows never move what is under the pointer: they wait behind a button.
  useEffect(() => {
    if (first.data && !over.current) setShown(first.data);
    else if (first.data) setShown((old) => (old && freshRows(old, first.data as Log) ? old : first.data));
  }, [first.data]);
  const rows = useMemo(() => (shown ? mergeRows([shown, ...older], branches) : []), [shown, older, branches]);
  const { at, width } = useLanes(rows);
  if (!shown)
    return (
      <div class="in">
        <Wait error={first.error} />
      </div>
    );
  if (!rows.length)
    return (
      <Empty title="Nothing is kept yet">
        <p>The baseline is the first row, as soon as it is measured.</p>
      </Empty>
    );
  const waiting = first.data ? freshRows(shown, first.data) : 0;
  const last = older[older.length - 1] ?? shown;
  const refuse = (error: Error): void => {
    said.value = { text: error.message, isBad: true };
  };
  const loadMore = (): void => {
    get<Log>(address("/api/log", { run: shownRun.value, limit: 100, after: last.next })).then(
      (page) => setOlder([...older, page]),
      refuse,
    );
  };
  const openBranch = (id: string): void => {
    get<Log>(address("/api/log", { run: shownRun.value, branch: id })).then(
      (page) => setBranches(new Map(branches).set(id, page)),
      refuse,
    );
  };
  const rowHeight = isPhone() ? 104 : 46;
  const zero = stripZero(shown);
  return (
    <>
      <div class="loghead" style={{ paddingLeft: `${width}px` }}>
        <span>Change</span>
        <span class="num clip">{overview.value?.metric.name ?? "Score"}</span>
        <span class="num nowrap">Over parent</span>
        <div class="strips">
          <span style={{ left: "4px" }}>no score</span>
          <span style={{ right: `${380 - zero + 8}px` }}>worse</span>
          <span style={{ left: `${zero + 8}px` }}>better</span>
        </div>
        <span class="num">Tries</span>
      </div>
      {waiting > 0 && (
        <div class="fresh">
          <button type="button" class="btn low" onClick={() => setShown(first.data)}>
            {count(waiting)} new
          </button>
        </div>
      )}
      <ol
        class="log"
        onPointerEnter={() => {
          over.current = true;
        }}
        onPointerLeave={() => {
          over.current = false;
          if (first.data) setShown(first.data);
        }}
      >
        <Graph rows={rows} at={at} width={width} rowHeight={rowHeight} />
        {rows.map((row) => (
          <RowView key={row.id} row={row} log={shown} left={width} onBranch={() => openBranch(row.id)} />
        ))}
      </ol>
      {last.next !== null && (
        <div class="more-rows">
          <button type="button" class="btn" onClick={loadMore}>
            Show older ones, of {count(shown.total)}
          </button>
        </div>
      )}
    </>
  );
}
