"""What an agent can be shown of a node: its diff, its log, its gates, its traces; fenced, and bounded."""

from __future__ import annotations

from loopty.campaign.reader import CampaignReader
from loopty.kit.fence import fence_text
from loopty.record.node_record import Node


def node_excerpt(campaign: CampaignReader, node: Node, what: str, lines: int, longest: int) -> str:
    """At most so many lines and characters. `what` is diff, gate, log or traces."""
    from loopty.workspaces.node_leftovers import NodeLeftovers

    name = node.name
    if what == "diff":
        patch = campaign.diff(node.id).patch.splitlines()
        more = f"\n… {len(patch) - lines} more lines" if len(patch) > lines else ""
        return fence_text(f"the change of {name}", "\n".join(patch[:lines]) + more, longest, exact=True)
    if what == "gate":
        gates = [f"{gate.name}: {gate.command or gate.metric}" for _, gate in campaign.gates(node.id)]
        printed = node.outcome.error_lines if node.outcome else ()
        text = "\n".join((f"verdict: {node.verdict}: {node.reason}", *gates, *printed)[-lines:])
        return fence_text(f"the gates of {name}, and what a failed one printed", text, longest)
    left = NodeLeftovers(campaign.record.folders).read(node)
    if what == "log":
        outputs = {"stdout:": left.stdout, "stderr:": left.stderr}
        text = "\n".join("\n".join((head, *output.splitlines()[-lines:])) for head, output in outputs.items())
        return fence_text(f"the end of the output of {name}", text, longest)
    texts = (f"{task}\n{text}" for task, text in left.traces.items())
    text = "\n".join("\n".join(texts).splitlines()[:lines])
    return fence_text(f"the traces of {name}, failed tasks first", text or "none", longest)
