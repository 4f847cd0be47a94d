"""How much better a node is than its parent, whichever node is the best: so an orthogonal gain is seen."""

from __future__ import annotations

from loopty.domain.objective import Metric, score_metric
from loopty.domain.outcome import Effect
from loopty.kit.records import Record
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.views.comparable import sigma
from loopty.views.score_change import SIGMAS, ScoreChange, percent_of, score_change


class OverParent(Record):
    """A node's change over its parent."""

    change: ScoreChange
    is_paired: bool
    """Whether the two were compared in pairs; else the change contains what the machine did in between."""
    noise: float
    """Of one measurement; 0 where results do not vary."""

    @property
    def is_within_noise(self) -> bool:
        """Whether the change may be nothing but noise: measured apart, and no larger than two results differ."""
        return not self.change.amount or (not self.is_paired and abs(self.change.amount) <= SIGMAS * self.noise)


def over_parent(history: History, node: Node, fingerprint: str | None = None) -> OverParent | None:
    """The node's change over its parent in the most important metric; None without comparable results.

    Both are compared under one fingerprint, by default that of the node's verdict.
    """
    metrics = history.metrics(node)
    if node.id.parent is None or node.outcome is None or not metrics:
        return None
    under, metric = node.outcome.fingerprint if fingerprint is None else fingerprint, score_metric(metrics)
    mine, parent = node.result(under), history[node.id.parent].result(under)
    if not (mine and parent and mine.outcome.is_finished):
        return None
    if metric.name not in mine.outcome.metrics or metric.name not in parent.outcome.metrics:
        return None
    noise = sigma(history.runs[node.id.run], under, metric.name)
    is_paired = node.against == node.id.parent and under == node.outcome.fingerprint
    scores = mine.outcome.metrics[metric.name], parent.outcome.metrics[metric.name]
    return over_score(*scores, metric, noise, node.effect if is_paired else None)


def over_score(score: float, older: float, metric: Metric, noise: float, effect: Effect | None) -> OverParent:
    """The change from the parent's score; `effect` is that of their pairs, where they were compared in pairs."""
    if effect and effect.metric == metric.name:
        change = ScoreChange(effect.amount, percent_of(effect.amount, older, noise))
        return OverParent(change, is_paired=True, noise=noise)
    return OverParent(score_change(score, older, metric.direction, noise), is_paired=False, noise=noise)
