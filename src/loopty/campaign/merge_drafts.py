"""A draft with the changes of two nodes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from loopty.campaign.context import CampaignContext
from loopty.campaign.new_drafts import Draft, DraftClaim, new_draft
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.domain.space import Value
from loopty.kit.records import Record, replace
from loopty.record.node_record import Node
from loopty.record.node_refusals import parent_refusal
from loopty.record.removed_files import require_files
from loopty.record.verdicts import Incumbents


class MergedDraft(Record):
    """The draft of a merge, and what its author has to decide."""

    draft: Draft
    parent: NodeId
    """The one of the two that it is a child of: the better one, or the one named first."""
    other: NodeId
    ancestor: NodeId
    conflicts: tuple[str, ...]
    """Files with conflicts, which are marked in them; and parameters that both changed."""


def merge_drafts(
    context: CampaignContext, first: NodeId, second: NodeId, message: str, claim: DraftClaim | None = None
) -> MergedDraft:
    """Bring the changes of two nodes onto their common ancestor, as a draft below the better one."""
    name = context.history.name
    if first.run != second.run:
        raise Misuse(f"{name(first)} and {name(second)} are of different runs: their results are not comparable")
    if first.is_within(second) or second.is_within(first):
        raise Misuse(
            f"one of {name(first)} and {name(second)} holds the changes of the other already: nothing to merge"
        )
    best = Incumbents.of(context.history.runs[first.run], Pool.ATTEMPT).best
    mine, theirs = (first, second) if best is None or not best.is_within(second) else (second, first)
    ours, other = context.history[mine], context.history[theirs]
    for node in (ours, other):
        _require_mergeable(node)
    common = [node for node in ours.id.lineage if other.id.is_within(node)]
    ancestor = context.history[common[-1]]
    files = context.files.merge(ancestor.commit, ours.commit, other.commit, (ours.name, other.name))
    params, clashes = _params_of_both(ancestor, ours, other)
    claim = replace(claim or DraftClaim(), merged=(other.id,))
    draft = new_draft(context, ours.id, message or f"merge {ours.name} and {other.name}", params, claim=claim)
    write_edits(context, draft, files.edits)
    return MergedDraft(draft, ours.id, other.id, ancestor.id, (*files.conflicts, *clashes))


def write_edits(context: CampaignContext, draft: Draft, edits: Mapping[str, bytes | None]) -> None:
    """Make these changes in a draft that was just laid out."""
    folder = context.state.draft_folder(draft.node)
    for path, content in edits.items():
        *above, file = PurePosixPath(path).parts
        place = folder.below(*above)
        if content is None:
            place.remove(file)
        else:
            place.file(file).write(content)
    layout = context.state.draft_layout(draft.node)
    layout.write(layout.read())  # its time says until when the changes are ours


def _require_mergeable(node: Node) -> None:
    if node.draft:
        raise Misuse(f"{node.name} is a draft: run it first")
    require_files(node)
    if reason := parent_refusal(node):
        raise Misuse(f"{node.name} cannot be merged: {reason}")


def _params_of_both(ancestor: Node, ours: Node, other: Node) -> tuple[dict[str, Value], tuple[str, ...]]:
    """The other's parameters that differ from the ancestor's, and those that both changed."""
    changed = {name: value for name, value in other.params.items() if ancestor.params.get(name) != value}
    clashes = [
        name for name, value in changed.items() if ours.params.get(name) not in (ancestor.params.get(name), value)
    ]
    taken = {name: value for name, value in changed.items() if name not in clashes and name in ours.params}
    return taken, tuple(f"parameter {name}" for name in clashes)
