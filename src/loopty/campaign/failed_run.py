"""Measure the baseline again after it failed, and take drafts along into the new run."""

from __future__ import annotations

from loopty.campaign.by_hand import run_node
from loopty.campaign.context import CampaignContext
from loopty.campaign.draft_files import node_as_edited
from loopty.campaign.merge_drafts import write_edits
from loopty.campaign.new_drafts import DraftClaim, drop_draft, new_draft
from loopty.campaign.run_entry import enter_run
from loopty.domain.errors import Misuse
from loopty.domain.outcome import Verdict
from loopty.record.node_record import Node
from loopty.record.node_refusals import refuse_dropped


def run_again(context: CampaignContext, node: Node, unsafe: bool) -> Node:
    """Measure the baseline in a new run, because that of the node's run gave no result; then the draft there."""
    refuse_dropped(node)
    run = context.history.runs[enter_run(context, refuse=lambda: _require_executor(context, unsafe))]
    root = context.history[run.root]
    if root.verdict is None:
        context.say(f"run {run.number} measures the baseline again: run {node.id.run} has no result")
    if root.verdict is None or node.id.parent is None:
        root = run_node(context, root, unsafe)
    if root.verdict is not Verdict.KEPT or node.id.parent is None:
        return root
    return run_node(context, _draft_in_new_run(context, node, root), unsafe)


def _require_executor(context: CampaignContext, unsafe: bool) -> None:
    context.executor(unsafe)


def _draft_in_new_run(context: CampaignContext, node: Node, root: Node) -> Node:
    """The draft below the new baseline, with what the user changed in the old one."""
    if not node.draft:
        raise Misuse(f"the run of {node.name} has no result: make it again below {root.name} with `loopty new`")
    history = context.history
    edited, old = node_as_edited(context, node), history[history.runs[node.id.run].root]
    names = f"the baseline {root.name}", f"the draft {node.name}"
    files = context.files.merge(old.commit, root.commit, edited.commit, names)
    params = {
        name: value
        for name, value in edited.params.items()
        if name in root.params and old.params.get(name) != value
    }
    draft = new_draft(context, root.id, node.summary, params, claim=DraftClaim(node.author, node.surface))
    write_edits(context, draft, files.edits)
    drop_draft(context, node.id)
    new = history[draft.node]
    if files.conflicts:
        raise Misuse(
            f"{node.name} is {new.name} now, and conflicts with the new baseline in {', '.join(files.conflicts)}: "
            f"edit {draft.folder}, then run `loopty run {new.name}`"
        )
    context.say(f"{node.name} is {new.name} now: below the new baseline")
    return new
