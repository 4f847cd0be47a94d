"""Merges the changes of two nodes: by git where they do not conflict, else a model is asked.

In a second stage the other node comes from the frozen pool, else it is one of the best nodes of the run.
"""

from __future__ import annotations

import itertools

from loopty.domain.ids import NodeId
from loopty.domain.proposal import Objection, Proposal, Refusal
from loopty.engine.protocols import Ask
from loopty.kit.fence import one_line
from loopty.proposers.code.plan import Plan
from loopty.proposers.file_merge import MergeFiles
from loopty.record.frozen_pools import FrozenPool
from loopty.record.node_record import Node

_MOST_NAMED = 5
_LONGEST_SUMMARY = 160


def merge_proposal(ask: Ask, plan: Plan, merge: MergeFiles) -> Proposal | Refusal | None:
    """The merge that git makes of the plan's two nodes; None where they conflict."""
    parent, other = plan.parent, plan.inspirations[0]
    names = parent.name, other.name
    merged = merge(_ancestor(ask, parent, other).commit, parent.commit, other.commit, names)
    if merged.conflicts:
        return None
    if not merged.edits:
        reason = f"{parent.name} holds the changes of {other.name} already"
        return Refusal(plan.operator, reason, Objection.DUPLICATE, arm_reason=plan.arm_reason)
    files = ", ".join(itertools.islice(sorted(merged.edits), _MOST_NAMED))
    return Proposal(
        plan.operator,
        parent.id,
        one_line(f"git merges {other.name}: {files}", _LONGEST_SUMMARY),
        edits=dict(merged.edits),
        inspirations=(other.id,),
        parent_reason=plan.parent_reason,
        arm_reason=plan.arm_reason,
        merged=(other.id,),
    )


def _ancestor(ask: Ask, parent: Node, other: Node) -> Node:
    """The newest node that both descend from. A second stage descends from the first member of its pool."""
    pool = FrozenPool.of(ask.history.runs[ask.run])
    ours: NodeId = pool.members[0].node if pool.base else parent.id
    common = [node for node in ours.lineage if other.id.is_within(node)]
    return ask.history[common[-1]]
