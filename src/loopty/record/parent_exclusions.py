"""Nodes that no change starts from: an audit or the user said so."""

from __future__ import annotations

from loopty.domain.ids import NodeId
from loopty.record.audit_anchors import AuditAnchors
from loopty.record.directives import Directive
from loopty.record.history import History
from loopty.record.run_record import Run


def excluded_tops(run: Run, audits: bool) -> tuple[NodeId, ...]:
    """The nodes that no change starts from, nor from what is below them; `audits` says whether audits steer."""
    return (*Directive.of(run).not_below, *(AuditAnchors.of(run).refuted if audits else ()))


def exclusion(history: History, node: NodeId, audits: bool) -> str:
    """Why no change starts from the node, as a clause; empty where one may."""
    run = history.runs[node.run]
    if node == run.root:
        return ""
    for top in Directive.of(run).not_below:
        if node.is_within(top):
            return f"the directive says: nothing at or below {history.name(top)}"
    for top in AuditAnchors.of(run).refuted if audits else ():
        if node.is_within(top):
            return f"an audit found that the gain of {history.name(top)} does not carry over"
    withdrawn = history[node].withdrawn
    return (
        f"{history.name(node)} was taken back by hand: {withdrawn.why}" if withdrawn and withdrawn.by_hand else ""
    )
