"""Every judged node as one point: its score in the order of the experiments, under one fingerprint."""

from __future__ import annotations

import enum

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction
from loopty.domain.outcome import Ending, Verdict
from loopty.domain.pool import SEARCH_POOLS, Pool
from loopty.kit.dataclass import dataclass
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.views.comparable import comparable_result, has_only_other_fingerprints, incumbents, score, sigma


class Mark(enum.StrEnum):
    """How a point is drawn. A node without a comparable score failed, unless it was pruned or rejected."""

    KEPT = "kept"
    DISCARDED = "discarded"
    INCONCLUSIVE = "inconclusive"
    PRUNED = "pruned"
    FAILED = "failed"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class ScorePoint:
    """One experiment of the chart."""

    order: int
    node: NodeId
    pool: Pool
    mark: Mark
    score: float | None
    """None if the node failed, was pruned or was rejected."""
    handle: int = 0


@dataclass(frozen=True, slots=True)
class ScorePoints:
    """The points of one run in the order of the experiments, and the name of their score."""

    metric: str
    direction: Direction
    items: tuple[ScorePoint, ...]
    under_other_fingerprints: int
    """The number of nodes with results only under other fingerprints; they are not among these points."""
    noise: float = 0.0
    """Of one measurement; 0 where results do not vary."""


def points(history: History, run: int) -> ScorePoints:
    """The points of a run under its present fingerprint."""
    record = history.runs[run]
    fingerprint = Cohorts.of(record).fingerprint
    judged = [node for pool in SEARCH_POOLS for node in history.nodes(run, pool) if node.verdict is not None]
    judged.sort(key=lambda node: node.order)
    here = [node for node in judged if not has_only_other_fingerprints(node, record)]
    kept = frozenset(incumbents(history, record, fingerprint))
    metrics = next((known for node in judged if (known := history.metrics(node))), ())
    return ScorePoints(
        metrics[0].name if metrics else "score",
        metrics[0].direction if metrics else record.objective.direction,
        tuple(_point(history, node, fingerprint, node.id in kept) for node in here),
        len(judged) - len(here),
        sigma(record, fingerprint, metrics[0].name) if metrics else 0.0,
    )


def _point(history: History, node: Node, fingerprint: str, kept: bool) -> ScorePoint:
    value = score(history, node, fingerprint) if comparable_result(node, fingerprint) else None
    return ScorePoint(node.order, node.id, node.pool, _mark(node, value, kept), value, node.handle)


def _mark(node: Node, score: float | None, kept: bool) -> Mark:
    if node.verdict is Verdict.REJECTED:
        return Mark.REJECTED
    if score is None:
        return Mark.PRUNED if node.outcome and node.outcome.ending is Ending.PRUNED else Mark.FAILED
    if kept:
        return Mark.KEPT
    return Mark.INCONCLUSIVE if node.verdict is Verdict.INCONCLUSIVE else Mark.DISCARDED
