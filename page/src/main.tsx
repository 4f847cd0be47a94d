/** The page: one frame, one view at a time. */

import "./style/tokens.css";
import "./style/base.css";
import "./style/frame.css";
import "./style/blocks.css";
import "./style/views.css";
import { type JSX, render } from "preact";
import { Sheets, Toast } from "./actions/sheets";
import { takeSecret } from "./api/secret";
import { Command, Empty } from "./parts/blocks";
import { Frame } from "./parts/frame";
import { hideTip, Tip } from "./parts/tip";
import { onKey } from "./state/keys";
import { route, VIEWS, type ViewName, watchRoute } from "./state/route";
import { connection, overview, progress, refusal, session, start } from "./state/store";
import { startTheme } from "./state/theme";
import { AgentsView } from "./views/agents/agents_view";
import { AuditView } from "./views/audit/audit_view";
import { CompareView } from "./views/compare/compare_view";
import { FoldProgress } from "./views/fold_progress";
import { NodeView } from "./views/node/node_view";
import { OperatorsView } from "./views/operators/operators_view";
import { OverviewView } from "./views/overview/overview_view";
import { ParametersView } from "./views/parameters/parameters_view";
import { TreeView } from "./views/tree/tree_view";

const SHOWN: Record<ViewName, () => JSX.Element> = {
  overview: OverviewView,
  tree: TreeView,
  node: NodeView,
  compare: CompareView,
  parameters: ParametersView,
  operators: OperatorsView,
  agents: AgentsView,
  audit: AuditView,
};

function NothingYet(): JSX.Element {
  return (
    <Empty title="No experiment yet">
      <p>
        Nothing has run in this task. The baseline shows here as soon as it is measured, then every experiment
        after it.
      </p>
      <Command text="loopty run" />
    </Empty>
  );
}

function Body(): JSX.Element {
  if (connection.value === "refused")
    return (
      <Empty title="Not logged in">
        <p>{refusal.value}</p>
        <p>Open the address that the command printed; it carries a token.</p>
        <Command text="loopty dashboard" />
      </Empty>
    );
  if (progress.value && !overview.value) return <FoldProgress progress={progress.value} />;
  if (session.value && session.value.run === null && !overview.value) return <NothingYet />;
  const View = SHOWN[route.value.view];
  const label = VIEWS.find((view) => view.name === route.value.view)?.label;
  return (
    <>
      {label && <h1 class="sr">{label}</h1>}
      <View />
    </>
  );
}

function Page(): JSX.Element {
  return (
    <>
      <Frame>
        <Body />
      </Frame>
      <Sheets />
      <Toast />
      <Tip />
    </>
  );
}

takeSecret();
startTheme();
watchRoute();
addEventListener("keydown", onKey);
// A new address, pasted into the page that the old one opened, loads nothing: only the part after # differs.
addEventListener("hashchange", () => {
  if (takeSecret()) void start();
});
addEventListener("hashchange", hideTip);
const place = document.getElementById("page");
if (place) render(<Page />, place);
void start();
