"""How a node stands beside the baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loopty.domain.ids import NodeId
from loopty.domain.objective import Metric
from loopty.domain.outcome import Integrity
from loopty.domain.space import Value
from loopty.record.history import History
from loopty.views.comparable import comparable_result, sigma
from loopty.views.score_change import ScoreChange, score_change


@dataclass(frozen=True, slots=True)
class AgainstBaseline:
    """A node with its score."""

    node: NodeId
    score: float
    over_baseline: ScoreChange | None
    """None for the baseline itself, and where that was not measured."""
    params: Mapping[str, Value]
    edited: bool
    """Whether its files differ from the baseline's."""
    integrity: Integrity | None


def against_baseline(
    history: History, node: NodeId | None, fingerprint: str, metric: Metric
) -> AgainstBaseline | None:
    """The node under this fingerprint, if there is one and it has a result there."""
    found = history[node] if node else None
    result = comparable_result(found, fingerprint) if found else None
    if found is None or result is None:
        return None
    run = history.runs[found.id.run]
    root = history[run.root]
    baseline = comparable_result(root, fingerprint) if found.id != root.id else None
    score = result.outcome.metrics[metric.name]
    better = None
    if baseline:
        noise = sigma(run, fingerprint, metric.name)
        better = score_change(score, baseline.outcome.metrics[metric.name], metric.direction, noise)
    return AgainstBaseline(
        found.id, score, better, found.params, found.tree != root.tree, result.outcome.integrity
    )
