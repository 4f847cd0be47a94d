"""What a draft holds now: its edits, as a node to measure, and as files to seal."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from loopty.campaign import hand_decisions
from loopty.campaign.context import CampaignContext
from loopty.domain.declared_parameters import carry_params
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.proposal import Edits, Proposal
from loopty.domain.space import Params
from loopty.engine.protocols import CommittedFiles
from loopty.kit.records import replace
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.workspaces.drafts import Drafts


def node_as_edited(context: CampaignContext, node: Node) -> Node:
    """The node with what its draft holds now; nothing is recorded."""
    if not node.draft:
        return node
    files = context.files.commit(_parent(context, node), draft_edits(context, node), "a check of the task")
    return with_files(node, files)


def with_files(node: Node, files: CommittedFiles) -> Node:
    """The node with these files; a parameter that they declare has its value, or else its default."""
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
    """The draft's changes. Raises Misuse when the access rules forbid one."""
    parent = _parent(context, node)
    root = context.history[context.history.runs[node.id.run].root]
    places = context.state.draft_folder(node.id), context.state.draft_layout(node.id)
    edits = Drafts(context.repository, context.files).edits(root, *places)
    if reason := context.files.refusal(parent, Proposal(node.operator, parent.id, node.summary, edits=edits)):
        raise Misuse(f"{node.name} {reason}{_way_back(context, parent, edits, places[0].shown_path)}")
    return edits


def _way_back(context: CampaignContext, parent: Node, edits: Edits, folder: Path) -> str:
    """How the first file that may not change gets back what it held; empty where all may."""
    path = next((path for path in sorted(edits) if not context.task.access.is_writable(path)), None)
    if path is None:
        return ""
    place = shlex.quote(str(folder / path))
    if not context.repository.entries(parent.commit, [path]):
        return f"; remove it: rm {place}"
    return f"; restore it: git show {shlex.quote(f'{parent.commit[:12]}:{path}')} > {place}"


def _parent(context: CampaignContext, node: Node) -> Node:
    return context.history[node.id.parent or NodeId(str(node.id.run))]
