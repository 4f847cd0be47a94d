"""How much better a node is than its parent, whichever node is the best: so an orthogonal gain is seen."""

from __future__ import annotations

from dataclasses import dataclass

from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.views.comparable import sigma
from loopty.views.score_change import ScoreChange, percent_of, score_change


@dataclass(frozen=True, slots=True)
class OverParent:
    """A node's change over its parent."""

    change: ScoreChange
    is_paired: bool
    """Whether the two were compared in pairs; else the change contains what the machine did in between."""
    noise: float
    """Of one measurement; 0 where results do not vary."""


def over_parent(history: History, node: Node) -> OverParent | None:
    """The node's change over its parent in the most important metric; None without comparable results."""
    metrics = history.metrics(node)
    if node.id.parent is None or node.outcome is None or not node.outcome.is_finished or not metrics:
        return None
    fingerprint, metric = node.outcome.fingerprint, metrics[0]
    parent = history[node.id.parent].result(fingerprint)
    if parent is None or metric.name not in node.outcome.metrics or metric.name not in parent.outcome.metrics:
        return None
    older, noise = parent.outcome.metrics[metric.name], sigma(history.runs[node.id.run], fingerprint, metric.name)
    if node.effect and node.against == node.id.parent and node.effect.metric == metric.name:
        change = ScoreChange(node.effect.amount, percent_of(node.effect.amount, older, noise))
        return OverParent(change, is_paired=True, noise=noise)
    change = score_change(node.outcome.metrics[metric.name], older, metric.direction, noise)
    return OverParent(change, is_paired=False, noise=noise)
