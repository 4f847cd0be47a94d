/** The left half of a node: each part is asked for when its tab is opened. */

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import type { NodeDetail } from "../../api/node";
import { route } from "../../state/route";
import { CurveTab } from "./curve_tab";
import { DiffTab } from "./diff_tab";
import { LogsTab } from "./logs_tab";
import { RawTab } from "./raw_tab";
import { TalkTab } from "./talk_tab";
import { TasksTab } from "./tasks_tab";

type TabName = "diff" | "talk" | "logs" | "curve" | "tasks" | "raw";

const chosen = signal<TabName>("diff");

const TABS: {
  name: TabName;
  label: (node: NodeDetail) => string;
  isThere: (node: NodeDetail) => boolean;
  View: (props: { node: NodeDetail }) => JSX.Element;
}[] = [
  {
    name: "diff",
    label: (node) => (Object.keys(node.changed_params).length && !node.edits.length ? "Parameters" : "Diff"),
    isThere: () => true,
    View: DiffTab,
  },
  { name: "talk", label: () => "Prompt and reply", isThere: (node) => node.calls.length > 0, View: TalkTab },
  { name: "logs", label: () => "Logs", isThere: () => true, View: LogsTab },
  { name: "curve", label: () => "Curve", isThere: (node) => node.has_curve, View: CurveTab },
  { name: "tasks", label: () => "Tasks", isThere: (node) => node.traces.length > 0, View: TasksTab },
  { name: "raw", label: () => "Raw record", isThere: () => true, View: RawTab },
];

export function NodeTabs({ node }: { node: NodeDetail }): JSX.Element {
  const asked = route.value.query.get("tab");
  useEffect(() => {
    const wanted = TABS.find((tab) => tab.name === asked);
    if (wanted) chosen.value = wanted.name;
  }, [asked]);
  const tabs = TABS.filter((tab) => tab.isThere(node));
  const open = tabs.find((tab) => tab.name === chosen.value) ?? tabs[0];
  const onKey = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step || !open) return;
    const next = tabs[(tabs.indexOf(open) + step + tabs.length) % tabs.length];
    if (!next) return;
    chosen.value = next.name;
    document.getElementById(`tab-${next.name}`)?.focus();
  };
  if (!open) return <div />;
  return (
    <section class="card">
      <div class="tabs" role="tablist" aria-label="Parts of the node" onKeyDown={onKey}>
        {tabs.map((tab) => (
          <button
            key={tab.name}
            id={`tab-${tab.name}`}
            type="button"
            role="tab"
            aria-selected={tab === open}
            aria-controls="tab-panel"
            tabIndex={tab === open ? 0 : -1}
            onClick={() => {
              chosen.value = tab.name;
            }}
          >
            {tab.label(node)}
          </button>
        ))}
      </div>
      <div id="tab-panel" role="tabpanel" aria-labelledby={`tab-${open.name}`}>
        <open.View key={`${open.name} ${node.id}`} node={node} />
      </div>
    </section>
  );
}
