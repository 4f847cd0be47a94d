"""A proposal as a node: its parameters, which may come from its parents, and the event that adds it."""

from __future__ import annotations

from loopty.domain.declared_parameters import Declared, complete_params
from loopty.domain.git_names import ObjectName, TreePath
from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.domain.proposal import Proposal
from loopty.domain.space import Params, Value
from loopty.record.history import History
from loopty.record.nodes import NodeAdded


def inherit_params(history: History, proposal: Proposal, declared: Declared) -> dict[str, Value]:
    """The proposal's values, else those of its parent; what the program declares, it has from all its parents."""
    parent, values = history[proposal.parent], dict[str, Value]()
    for node in (*map(history.__getitem__, proposal.merged), parent):
        values |= {name: value for name, value in node.params.items() if name in node.declared}
    known = {name: value for name, value in values.items() if name in declared}
    return complete_params(declared, {**known, **(proposal.params or parent.task_params)})


def add_proposal(
    proposal: Proposal,
    node: NodeId,
    pool: Pool,
    commit: ObjectName,
    tree: ObjectName,
    params: Params,
    declared: Declared,
    draft: bool,
    known_event: int,
) -> NodeAdded:
    """The event that adds the proposal as this node."""
    return NodeAdded(
        node,
        pool,
        proposal.operator,
        proposal.summary,
        commit,
        tree,
        params,
        draft,
        known_event,
        tuple(map(TreePath, sorted(proposal.edits))),
        proposal.inspirations,
        proposal.calls,
        proposal.remaining_in_reply,
        proposal.index_in_reply,
        proposal.parent_reason,
        proposal.author,
        proposal.surface,
        proposal.merged,
        proposal.arm_reason,
        declared,
    )
