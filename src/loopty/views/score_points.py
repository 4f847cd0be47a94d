"""Every judged node as one point: its score in the order of the experiments, under one fingerprint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction, Metric, score_metric
from loopty.domain.outcome import Ending, Verdict
from loopty.domain.pool import Pool
from loopty.kit.records import Record, field
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.views.comparable import incumbents, sigma
from loopty.views.rated_nodes import RatedKind, RatedNode, RatedNodes, rated_nodes


class Mark(StrEnum):
    """How a point is drawn. A node without a comparable score failed, unless it was pruned or rejected."""

    KEPT = "kept"
    DISCARDED = "discarded"
    INCONCLUSIVE = "inconclusive"
    PRUNED = "pruned"
    FAILED = "failed"
    REJECTED = "rejected"


_WITHOUT_SCORE = (Mark.PRUNED, Mark.FAILED, Mark.REJECTED)


class ScorePoint(Record):
    """One experiment of the chart."""

    order: int
    node: NodeId
    pool: Pool
    mark: Mark
    score: float | None
    """None if the node failed, was pruned or was rejected."""
    handle: int = 0


class ScorePoints(Record):
    """The points of one run in the order of the experiments, and the name of their score."""

    metric: str
    direction: Direction
    items: tuple[ScorePoint, ...]
    under_other_fingerprints: int
    """The number of nodes with results only under other fingerprints; they are not among these points."""
    noise: float = 0.0
    """Of one measurement; 0 where results do not vary."""
    marks: Mapping[Mark, int] = field(default_factory=dict)
    """How many nodes have each mark, without those of the control and the past versions that have a score."""
    control: int = 0
    """Nodes of the control that have a score."""
    versions: int = 0
    """Past versions that have a score."""
    is_thinned: bool = False
    """Whether some points were left out because there are too many to draw."""


def points(history: History, run: int, rated: RatedNodes | None = None, most: int | None = None) -> ScorePoints:
    """The points of a run under its present fingerprint; about `most` of them, or all.

    `rated` are the nodes of the run, where they are known. Of many points, those stay that were kept, and among
    neighbours the lowest, the highest and one of each mark.
    """
    record = history.runs[run]
    fingerprint = Cohorts.of(record).fingerprint
    rated = rated or rated_nodes(history, run)
    open_kinds = {kind for kind in rated.kinds if kind.verdict is None}
    foreign_kinds = {kind for kind in rated.kinds if kind.is_foreign}
    judged = sorted(node for node in rated.nodes if node.kind not in open_kinds)  # by their orders
    here = [node for node in judged if node.kind not in foreign_kinds] if foreign_kinds else judged
    marks = _marks(here, frozenset(history[node].handle for node in incumbents(history, record, fingerprint)))
    counts: Counter[Mark] = Counter()
    beside: Counter[Pool] = Counter()
    for (kind, mark), count in Counter(zip((node.kind for node in here), marks, strict=True)).items():
        if kind.pool is Pool.ATTEMPT or mark in _WITHOUT_SCORE:
            counts[mark] += count
        else:
            beside[kind.pool] += count
    places = range(len(here)) if most is None or len(here) <= most else _places_to_draw(here, marks, most)
    drawn = [here[place] for place in places]
    ids = rated.ids(drawn)
    metrics = history.counting_metrics(run) or _metrics_of_any(history, rated, judged)
    return ScorePoints(
        score_metric(metrics).name if metrics else "score",
        score_metric(metrics).direction if metrics else record.objective.direction,
        tuple(
            ScorePoint(node.order, name, node.kind.pool, marks[place], node.score, node.handle)
            for place, name, node in zip(places, ids, drawn, strict=True)
        ),
        len(judged) - len(here),
        sigma(record, fingerprint, score_metric(metrics).name) if metrics else 0.0,
        counts,
        beside[Pool.CONTROL],
        beside[Pool.VERSION],
        len(drawn) < len(here),
    )


def _metrics_of_any(history: History, rated: RatedNodes, judged: Sequence[RatedNode]) -> Sequence[Metric]:
    """The metrics of the first node that has some, where the task and the baseline name none."""
    return next(filter(None, (history.metrics(history[node]) for node in rated.ids(judged))), ())


def _places_to_draw(nodes: Sequence[RatedNode], marks: Sequence[Mark], most: int) -> list[int]:
    """Of each group of neighbours: what was kept, the lowest, the highest, the last, and one of each mark."""
    size = max(4 * len(nodes) // most, 1)
    drawn: list[int] = []
    for start in range(0, len(nodes), size):
        group = range(start, min(start + size, len(nodes)))
        scores = [node.score for node in nodes[start : group.stop]]
        last_of_mark = dict(zip(marks[start : group.stop], group, strict=True))
        places = {*last_of_mark.values(), group[-1]}
        if Mark.KEPT in last_of_mark:
            places |= {place for place in group if marks[place] is Mark.KEPT}
        if some := [score for score in scores if score is not None]:
            places |= {start + scores.index(min(some)), start + scores.index(max(some))}
        drawn += sorted(places)
    return drawn


def _marks(nodes: Sequence[RatedNode], kept: frozenset[int]) -> list[Mark]:
    """The marks of these nodes; those with the handles `kept` are incumbents."""
    usual: dict[RatedKind, Mark] = {}
    marks = []
    for node in nodes:
        _, handle, _, score, _, kind = node
        if score is None or handle in kept:
            marks.append(_mark(node, handle in kept))
        else:
            marks.append(usual.get(kind) or usual.setdefault(kind, _mark(node, kept=False)))
    return marks


def _mark(node: RatedNode, kept: bool) -> Mark:
    if node.kind.verdict == Verdict.REJECTED:
        return Mark.REJECTED
    if node.score is None:
        return Mark.PRUNED if node.kind.ending == Ending.PRUNED else Mark.FAILED
    if kept:
        return Mark.KEPT
    return Mark.INCONCLUSIVE if node.kind.verdict == Verdict.INCONCLUSIVE else Mark.DISCARDED
