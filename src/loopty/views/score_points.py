"""Every judged node as one point: its score in the order of the experiments, under one fingerprint."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction
from loopty.domain.outcome import Ending, Verdict
from loopty.domain.pool import Pool
from loopty.kit.dataclass import dataclass, field
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.views.comparable import incumbents, sigma
from loopty.views.rated_nodes import RatedNode, rated_nodes


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
    marks: Mapping[Mark, int] = field(default_factory=dict)
    """How many nodes have each mark, without those of the control that have a score."""
    control: int = 0
    """Nodes of the control that have a score."""
    is_thinned: bool = False
    """Whether some points were left out because there are too many to draw."""


def points(
    history: History, run: int, rated: Sequence[RatedNode] | None = None, most: int | None = None
) -> ScorePoints:
    """The points of a run under its present fingerprint; about `most` of them, or all.

    `rated` are the nodes of the run, where they are known. Of many points, those stay that were kept, and among
    neighbours the lowest, the highest and one of each mark.
    """
    record = history.runs[run]
    fingerprint = Cohorts.of(record).fingerprint
    nodes = rated_nodes(history, run) if rated is None else rated
    judged = sorted((node for node in nodes if node.verdict is not None), key=lambda node: node.order)
    here = [node for node in judged if not node.is_foreign]
    kept = frozenset(incumbents(history, record, fingerprint))
    marks = [_mark(node, node.id in kept) for node in here]
    counts = Counter(
        mark for node, mark in zip(here, marks, strict=True) if node.pool is not Pool.CONTROL or node.score is None
    )
    marked = list(zip(here, marks, strict=True))
    drawn = marked if most is None or len(marked) <= most else _thin_out(marked, most)
    known = (history.metrics(history[node.id]) for node in judged)
    metrics = history.counting_metrics(run) or next(filter(None, known), ())
    return ScorePoints(
        metrics[0].name if metrics else "score",
        metrics[0].direction if metrics else record.objective.direction,
        tuple(ScorePoint(node.order, node.id, node.pool, mark, node.score, node.handle) for node, mark in drawn),
        len(judged) - len(here),
        sigma(record, fingerprint, metrics[0].name) if metrics else 0.0,
        counts,
        len(here) - counts.total(),
        len(drawn) < len(marked),
    )


def _thin_out(marked: Sequence[tuple[RatedNode, Mark]], most: int) -> list[tuple[RatedNode, Mark]]:
    """Of each group of neighbours: what was kept, the lowest, the highest, the last, and one of each mark."""
    size = max(4 * len(marked) // most, 1)
    thinned: list[tuple[RatedNode, Mark]] = []
    for start in range(0, len(marked), size):
        group = marked[start : start + size]
        scores = [node.score for node, _ in group if node.score is not None]
        stay = {mark: place for place, (_, mark) in enumerate(group) if mark is not Mark.KEPT}
        places = {*stay.values(), len(group) - 1}
        places |= {place for place, (_, mark) in enumerate(group) if mark is Mark.KEPT}
        for extreme in (min(scores), max(scores)) if scores else ():
            places.add(next(place for place, (node, _) in enumerate(group) if node.score == extreme))
        thinned += [group[place] for place in sorted(places)]
    return thinned


def _mark(node: RatedNode, kept: bool) -> Mark:
    if node.verdict == Verdict.REJECTED:
        return Mark.REJECTED
    if node.score is None:
        return Mark.PRUNED if node.ending == Ending.PRUNED else Mark.FAILED
    if kept:
        return Mark.KEPT
    return Mark.INCONCLUSIVE if node.verdict == Verdict.INCONCLUSIVE else Mark.DISCARDED
