"""Drafts: nodes that are edited by hand and have not run yet; opened, read, merged and given up."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.proposal import BY_AGENT, BY_HAND, Edits, Proposal, carry_params, join_space
from loopty.domain.space import Params, Space, Value
from loopty.domain.trial import Pool
from loopty.engine import decisions
from loopty.engine.protocols import CommittedFiles
from loopty.kit.records import Record, replace
from loopty.record.fold import Event
from loopty.record.history import History
from loopty.record.node_record import Node, parent_refusal
from loopty.record.nodes import NodeAdded, require_files
from loopty.record.verdicts import Incumbents
from loopty.session import hand_decisions
from loopty.session.context import CampaignContext
from loopty.session.runs import enter_run
from loopty.workspaces.drafts import Drafts


class DraftClaim(Record):
    """Who opens a draft, and for what."""

    author: str = ""
    surface: str = ""
    merged: tuple[NodeId, ...] = ()
    """Nodes besides the parent whose changes it will hold."""
    require_new: Callable[[History, Node], None] = lambda _history, _parent: None
    """Raises Misuse where the same is in work already. Nobody writes to the ledger meanwhile."""


class Draft(Record):
    """A new node that is still being edited."""

    node: NodeId
    folder: Path
    """The directory with the node's files."""
    files: list[str]
    """Those of them that may be changed."""
    handle: int


def new_draft(
    context: CampaignContext,
    parent: NodeId | None,
    message: str,
    params: Mapping[str, Value | str],
    sparse: bool = False,
    claim: DraftClaim | None = None,
) -> Draft:
    """Add a draft below a node; by default below the best one. `sparse`: with the writable files alone."""
    claim = claim or DraftClaim()
    if parent is None:
        run = context.history.runs[enter_run(context)]
        parent = Incumbents.of(run, Pool.ATTEMPT).best or run.root
    elif parent == "1" and not context.history.runs:
        parent = context.history.runs[enter_run(context)].root
    above = context.history[parent]
    point = point_with(params, above.params, join_space(context.task.space, above.declared))
    proposal = Proposal(
        operator=BY_AGENT if claim.author else BY_HAND,
        parent=parent,
        summary=message,
        params=point,
        author=claim.author,
        surface=claim.surface,
        merged=claim.merged,
    )
    files = CommittedFiles(above.commit, above.tree, above.declared)

    def decide(history: History) -> list[Event]:
        claim.require_new(history, history[above.id])
        return decisions.add_node(history, proposal, files, Pool.ATTEMPT, draft=True)

    recorded = context.recorder.record(decide)
    added = recorded[0].event
    assert isinstance(added, NodeAdded)
    folder, layout = context.state.draft_folder(added.node), context.state.draft_layout(added.node)
    root = context.history[context.history.runs[added.node.run].root]
    writable = Drafts(context.repository, context.files).lay_out(above, root, folder, layout, sparse)
    return Draft(added.node, folder.shown_path, writable, context.history.handle(added.node))


def drop_draft(context: CampaignContext, node: NodeId) -> None:
    """Give up a draft: it never runs, and its directory goes."""
    context.recorder.record(lambda history: hand_decisions.drop_draft(history, node))
    remove_draft(context, context.history[node])


def remove_draft(context: CampaignContext, node: Node) -> None:
    """Remove the directory of a draft."""
    context.state.draft_folder(node.id).remove_all()
    context.state.draft_layout(node.id).remove()


def point_with(given: Mapping[str, Value | str], before: Params, space: Space) -> dict[str, Value]:
    """Set these values in the parent's parameters; empty when none is given."""
    values = {name: _value(name, value, space) for name, value in given.items()}
    point = space.complete_point({**before, **values}) if values else {}
    for name in values:
        if name not in point:
            raise Misuse(f"parameter {name} does not exist under the values of the others: leave it out")
    return point


def _value(name: str, value: Value | str, space: Space) -> Value:
    """Return the value of a parameter; a text that is no valid value is read as JSON."""
    if name not in space.parameters:
        known = ", ".join(space.parameters) or "none"
        raise Misuse(f"there is no parameter {name}: the parameters are {known}")
    parameter = space.parameters[name]
    if isinstance(value, str) and not parameter.accepts(value):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if not parameter.accepts(value):
        raise Misuse(
            f"parameter {name} cannot be {value!r}: see where it is declared, in loopty.toml or the program"
        )
    return value


def node_as_edited(context: CampaignContext, node: Node) -> Node:
    """Return the node with what its draft holds now; nothing is recorded."""
    if not node.draft:
        return node
    files = context.files.commit(_parent(context, node), draft_edits(context, node), "a check of the task")
    return with_files(node, files)


def with_files(node: Node, files: CommittedFiles) -> Node:
    """Return the node with these files; a parameter that they declare has its value, or else its default."""
    params = carry_params(node.declared, files.declared, node.params)
    return replace(node, commit=files.commit, tree=files.tree, declared=files.declared, params=params)


def sealable_files(
    context: CampaignContext,
    node: Node,
    require_startable: Callable[[History], None],
    params: Params | None = None,
) -> CommittedFiles:
    """Commit a draft's files. Raises Misuse where they cannot be sealed, and says first why it cannot start."""
    try:
        message = f"{node.operator}: {node.summary}"
        files = context.files.commit(_parent(context, node), draft_edits(context, node), message)
        hand_decisions.seal_node(context.history, node.id, files, params)
    except Misuse:
        # Another process may have been faster and closed the draft: say that instead.
        require_startable(context.recorder.refresh())
        raise
    return files


def draft_edits(context: CampaignContext, node: Node) -> Edits:
    """Return the draft's changes. Raises Misuse when the access rules forbid one."""
    parent = _parent(context, node)
    root = context.history[context.history.runs[node.id.run].root]
    places = context.state.draft_folder(node.id), context.state.draft_layout(node.id)
    edits = Drafts(context.repository, context.files).edits(root, *places)
    if reason := context.files.refusal(parent, Proposal(node.operator, parent.id, node.summary, edits=edits)):
        raise Misuse(f"{node.name} {reason}{_way_back(context, parent, edits, places[0].shown_path)}")
    return edits


def _way_back(context: CampaignContext, parent: Node, edits: Edits, folder: Path) -> str:
    """Say how the first file that may not change gets back what it held; empty if all may."""
    path = next((path for path in sorted(edits) if not context.task.access.is_writable(path)), None)
    if path is None:
        return ""
    place = shlex.quote(str(folder / path))
    if not context.repository.entries(parent.commit, [path]):
        return f"; remove it: rm {place}"
    return f"; restore it: git show {shlex.quote(f'{parent.commit[:12]}:{path}')} > {place}"


def _parent(context: CampaignContext, node: Node) -> Node:
    return context.history[node.id.parent or NodeId(str(node.id.run))]


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
    """Return the other's parameters that differ from the ancestor's, and those that both changed."""
    changed = {name: value for name, value in other.params.items() if ancestor.params.get(name) != value}
    clashes = [
        name for name, value in changed.items() if ours.params.get(name) not in (ancestor.params.get(name), value)
    ]
    taken = {name: value for name, value in changed.items() if name not in clashes and name in ours.params}
    return taken, tuple(f"parameter {name}" for name in clashes)
